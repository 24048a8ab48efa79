#!/usr/bin/env bash
# Train architectures on Multi30k German-English, one after the other, and score them on its test set:
#
#     examples/multi30k/run.sh transformer transevolve_fullff_2
#
# Data and results lie in $DATA (default data/multi30k); a run that was interrupted goes on. Each
# architecture ends with two lines, BLEU of the best checkpoint and of the average of the last three.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH=$PWD/.venv/bin:$PATH
DATA=${DATA:-data/multi30k}
SEED=${SEED:-1}

[ $# -gt 0 ] || { sed -n '2,7s/^# \?//p' "$0"; exit 2; }
[ -e "$DATA/data-bin/dict.de.txt" ] || scripts/prepare-multi30k.sh --out "$DATA"

for arch in "$@"; do
    layers=(--encoder-layers 4 --decoder-layers 4)
    inner_width=1024
    dropout=(--dropout 0.3 --attention-dropout 0)
    case $arch in
        transformer) sizes=("${layers[@]}") ;;
        macaron_transformer) sizes=("${layers[@]}" --activation-dropout 0) inner_width=512 ;;
        transevolve_*_1) sizes=(--encoder-blocks 1 --encoder-depth 4) ;;
        transevolve_*_2) sizes=(--encoder-blocks 2 --encoder-depth 2) ;;
        node_transformer_mt) sizes=(--encoder-layers 2) dropout=(--dropout 0.3) ;;
        *) echo "$arch: no sizes for it in $0" >&2; exit 2 ;;
    esac
    checkpoints=$DATA/$arch-seed$SEED
    # An epoch has 121 updates.
    fairseq-train "$DATA/data-bin" --user-dir fairseq_odeformers -s de -t en --arch "$arch" \
        "${sizes[@]}" --encoder-embed-dim 256 --decoder-embed-dim 256 \
        --encoder-ffn-embed-dim "$inner_width" --decoder-ffn-embed-dim "$inner_width" \
        --encoder-attention-heads 4 --decoder-attention-heads 4 --share-all-embeddings \
        "${dropout[@]}" \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --lr 2e-3 \
        --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update 1210 \
        --max-tokens 4096 --max-epoch 10 --seed "$SEED" \
        --save-dir "$checkpoints" --no-progress-bar
    python scripts/average_checkpoints.py --checkpoint-dir "$checkpoints" --by epoch --last 3 \
        --output "$checkpoints/averaged.pt"
    for name in checkpoint_best averaged; do
        score=$(fairseq-generate "$DATA/data-bin" --user-dir fairseq_odeformers \
            --path "$checkpoints/$name.pt" --beam 5 --remove-bpe --max-tokens 12000 \
            --required-batch-size-multiple 1 --quiet | grep "Generate test")
        echo "$arch, seed $SEED, $name: $score"
    done
done
