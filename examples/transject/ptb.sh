#!/usr/bin/env bash
# Train a language model on the Penn Treebank, and print its perplexity:
#
#     examples/transject/ptb.sh ARCH [OPTION OF fairseq-train ...]
#
# ARCH is transject_lm, transject_lm_random, or a baseline: transformer_lm, transformer_lm_rezero,
# transformer_lm_orthogonal. All see earlier tokens only. Of the validation set, and of the test set if
# there is one, the perplexity a token is printed, the ends of sentences counted. A run that was
# interrupted goes on; other options than those that it has begun with are refused.
#
# From the environment: RECIPE, one of
#     paper        Sengupta et al. (2023), appendix B.1: L = 6, d = 512, 35 tokens; the default
#     small        d = 128, for a CPU
# SEED (1), DATA (data/ptb, made by scripts/prepare-ptb.sh), and SAVE_DIR ($DATA/RECIPE-ARCH-seedSEED).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. examples/runs.sh
PATH=$PWD/.venv/bin:$PATH
RECIPE=${RECIPE:-paper}
SEED=${SEED:-1}
DATA=${DATA:-data/ptb}

[ $# -ge 1 ] || { sed -n '2,16s/^# \?//p' "$0"; exit 2; }
arch=$1
shift
save_dir=${SAVE_DIR:-$DATA/$RECIPE-$arch-seed$SEED}

case $RECIPE in
    paper) width=512 options=(--lr 0.01 --lr-scheduler fixed) ;;
    small)
        width=128
        options=(--lr 2e-3 --lr-scheduler inverse_sqrt --warmup-updates 100 --clip-norm 1) ;;
    *) echo "RECIPE=$RECIPE: choose from paper, small" >&2; exit 2 ;;
esac
options+=(--decoder-embed-dim "$width" --decoder-layers 6)
case $arch in
    transject_lm) options+=(--reconstruction-weight 1e-4) ;;  # the paper does not say
    transject_lm_random) ;;
    *)
        options+=(--decoder-ffn-embed-dim $((4 * width)) --decoder-attention-heads 8
            --decoder-input-dim "$width" --decoder-output-dim "$width") ;;
esac
[ -e "$DATA/data-bin" ] || { echo "$DATA: make it with scripts/prepare-ptb.sh" >&2; exit 2; }

mkdir -p "$save_dir"
keep "$save_dir/options" "${*@Q}"
# Without the multiple, what remains beside batches of eight would be left out.
fairseq-train "$DATA/data-bin" --user-dir fairseq_odeformers --arch "$arch" --seed "$SEED" \
    --task language_modeling --sample-break-mode none --tokens-per-sample 35 --batch-size 20 \
    --required-batch-size-multiple 1 --max-epoch 10 --optimizer adam \
    --criterion label_smoothed_cross_entropy_with_regularizers "${options[@]}" \
    --no-epoch-checkpoints --save-dir "$save_dir" --no-progress-bar "$@"
for split in valid test; do
    [ -e "$DATA/data-bin/$split.idx" ] || continue
    log=$(fairseq-eval-lm "$DATA/data-bin" --user-dir fairseq_odeformers --gen-subset $split \
        --path "$save_dir/checkpoint_best.pt" --tokens-per-sample 35 --batch-size 20 2>&1) ||
        { echo "$log" >&2; exit 1; }
    if grep "will be skipped" <<< "$log" >&2; then
        echo "the model was trained with fewer than 35 --tokens-per-sample" >&2
        exit 1
    fi
    sed -n "s/.*Perplexity: \([0-9.]*\).*/$split: perplexity \1/p" <<< "$log"
done
