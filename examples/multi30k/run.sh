#!/usr/bin/env bash
# Train architectures on Multi30k German-English, one after the other, and translate its test sets:
#
#     SEEDS="1 2 3" examples/multi30k/run.sh ARCH ... [OPTION OF fairseq-train ...]
#
# Each run ends with two lines, BLEU of the best checkpoint and of the average of the last three epochs,
# and leaves in $RUNS/ARCH-seedSEED: train.log (JSON lines), both checkpoints, and their translations
# (checkpoint_best.test.out, averaged.test.out, and so on). What is finished is not repeated, and a run
# that was interrupted goes on; the same command started twice shares the runs. Other options or data than
# those that a run has begun with are refused: give them another RUNS. Embeddings are not dropped, but those of
# transformer and node_transformer_mt, as all that these drop.
#
# From the environment: SEEDS (1), DATA (data/multi30k), and RUNS ($DATA).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. examples/runs.sh
PATH=$PWD/.venv/bin:$PATH
DATA=${DATA:-data/multi30k}
RUNS=${RUNS:-$DATA}

take_archs "$@"
[ ${#archs[@]} -gt 0 ] || { sed -n '2,13s/^# \?//p' "$0"; exit 2; }

# Sets the options in which architectures differ: each has as many parameters as the others.
choose_options() {
    local layers=(--encoder-layers 4 --decoder-layers 4)
    local undropped=(--attention-dropout 0) embedding=(--embedding-dropout 0)
    inner_width=1024
    case $1 in
        transformer) options=("${layers[@]}" "${undropped[@]}") ;;
        transformer_prenorm) options=("${layers[@]}" "${undropped[@]}" "${embedding[@]}") ;;
        macaron_transformer)
            options=("${layers[@]}" "${undropped[@]}" --activation-dropout 0 "${embedding[@]}")
            inner_width=512 ;;
        transevolve_*_1 | transevolve_*_1_prenorm)
            options=(--encoder-blocks 1 --encoder-depth 4 "${undropped[@]}" "${embedding[@]}") ;;
        transevolve_*_2 | transevolve_*_2_prenorm)
            options=(--encoder-blocks 2 --encoder-depth 2 "${undropped[@]}" "${embedding[@]}") ;;
        node_transformer_mt) options=(--encoder-layers 2) ;;
        *) echo "$1: no sizes for it in $0" >&2; return 2 ;;
    esac
}

experiment() {
    local arch=$1 seed=$2 folder=$3 options inner_width split name translations
    choose_options "$arch"
    if [ ! -e "$folder/averaged.pt" ]; then
        echo "$arch, seed $seed: training, see $folder/train.log"
        # An epoch has 121 updates.
        logged "$folder/train.log" \
            fairseq-train "$DATA/data-bin" --user-dir fairseq_odeformers -s de -t en --arch "$arch" \
            "${options[@]}" --encoder-embed-dim 256 --decoder-embed-dim 256 \
            --encoder-ffn-embed-dim "$inner_width" --decoder-ffn-embed-dim "$inner_width" \
            --encoder-attention-heads 4 --decoder-attention-heads 4 --share-all-embeddings \
            --dropout 0.3 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
            --optimizer adam --adam-betas '(0.9, 0.98)' --lr 2e-3 \
            --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update 1210 \
            --max-tokens 4096 --max-epoch 10 --seed "$seed" --keep-last-epochs 3 \
            --save-dir "$folder" --log-format json --log-interval 20 "${extra[@]}"
        python scripts/average_checkpoints.py --checkpoint-dir "$folder" --by epoch --last 3 \
            --output "$folder/averaged.pt"
    fi
    rm -f "$folder"/checkpoint[0-9]*.pt "$folder/checkpoint_last.pt"
    for split in "$DATA"/data-bin/test*.de-en.en.idx; do
        split=$(basename "$split" .de-en.en.idx)
        for name in checkpoint_best averaged; do
            translations=$folder/$name.$split.out
            [ -e "$translations" ] || complete "$translations" \
                fairseq-generate "$DATA/data-bin" --user-dir fairseq_odeformers \
                --gen-subset "$split" --path "$folder/$name.pt" --beam 5 --remove-bpe \
                --max-tokens 12000 --required-batch-size-multiple 1
            echo "$arch, seed $seed, $name: $(grep '^Generate' "$translations")"
        done
    done
}

for arch in "${archs[@]}"; do choose_options "$arch"; done
[ -e "$DATA/data-bin/dict.de.txt" ] || scripts/prepare-multi30k.sh --out "$DATA"
all_runs "$DATA" "$RUNS/" "${archs[@]}"
