#!/usr/bin/env bash
# Train a classifier on a data set of scripts/prepare-text-classification.sh, and print its accuracy on
# the test set:
#
#     examples/text_classification/run.sh DATA ARCH [OPTION OF fairseq-train ...]
#
# DATA is imdb or agnews, prepared in data/DATA if need be, or a folder that has a data-bin. The
# predictions are left in test.tsv beside the checkpoints; a run that was interrupted goes on.
#
# From the environment: RECIPE, one of
#     transevolve  Dutta et al. (2021), section 7.3 and appendix C; the default
#     transject    Sengupta et al. (2023), appendix B.1
#     small        for some thousand texts and a CPU
# SEED (1), and SAVE_DIR (data/DATA/RECIPE-ARCH-seedSEED).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH=$PWD/.venv/bin:$PATH
RECIPE=${RECIPE:-transevolve}
SEED=${SEED:-1}

[ $# -ge 2 ] || { sed -n '2,15s/^# \?//p' "$0"; exit 2; }
case $1 in
    imdb | agnews)
        folder=data/$1
        [ -e "$folder/data-bin" ] || scripts/prepare-text-classification.sh "$1" --out "$folder" ;;
    *) folder=$1 ;;
esac
arch=$2
shift 2
save_dir=${SAVE_DIR:-$folder/$RECIPE-$arch-seed$SEED}

options=()
case $arch in
    vanilla_transformer | node_transformer)  # otherwise as large as the parity task needs
        options+=(--encoder-layers 6 --encoder-embed-dim 256 --encoder-attention-heads 8
            --no-no-token-positional-embeddings --pooling mean) ;;
    transject) options+=(--reconstruction-weight 1e-4) ;;  # the paper does not say
esac
case $RECIPE in
    transevolve)  # 0.5 (256 * 8000)^-0.5 at the 8,000th update
        options+=(--batch-size 80 --max-epoch 15 --lr 3.49e-4 --lr-scheduler inverse_sqrt
            --warmup-updates 8000) ;;
    transject)
        options+=(--batch-size 32 --max-epoch 30 --patience 4 --lr 5e-4 --adam-betas '(0.9, 0.98)'
            --adam-eps 1e-9 --encoder-embed-dim 512)
        case $arch in
            transformer_* | transevolve_*) options+=(--encoder-ffn-embed-dim 2048) ;;
            macaron_classifier) options+=(--encoder-ffn-embed-dim 1024) ;;
        esac ;;
    small)
        updates=$(python -c "import sys
from fairseq.data.indexed_dataset import MMapIndexedDataset
print(-(-len(MMapIndexedDataset(sys.argv[1])) * 6 // 3200) * 100)" "$folder/data-bin/label/train")
        options+=(--batch-size 32 --max-epoch 6 --lr 5e-4 --lr-scheduler polynomial_decay
            --warmup-updates 150 --total-num-update "$updates" --adam-betas '(0.9, 0.98)'
            --clip-norm 1)
        case $arch in
            transject*) options+=(--encoder-embed-dim 256) ;;
            node_transformer) options+=(--dropout 0.3) ;;
            *) options+=(--dropout 0.3 --attention-dropout 0.1) ;;
        esac ;;
    *) echo "RECIPE=$RECIPE: choose from transevolve, transject, small" >&2; exit 2 ;;
esac

# The task cuts texts at 512 word pieces, and batches texts of about the same length.
fairseq-train "$folder/data-bin" --user-dir fairseq_odeformers --arch "$arch" --seed "$SEED" \
    --task long_range_arena --lra-task text --max-positions 512 --num-batch-buckets 8 \
    --criterion sequence_classification --optimizer adam "${options[@]}" \
    --best-checkpoint-metric accuracy --maximize-best-checkpoint-metric --no-epoch-checkpoints \
    --save-dir "$save_dir" --no-progress-bar "$@"
python -m fairseq_odeformers.predict "$folder/data-bin" --path "$save_dir/checkpoint_best.pt" \
    --output "$save_dir/test.tsv"
