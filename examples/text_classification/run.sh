#!/usr/bin/env bash
# Train classifiers on a data set of scripts/prepare-text-classification.sh, and print their accuracy
# on the test set:
#
#     SEEDS="1 2 3" examples/text_classification/run.sh DATA ARCH ... [OPTION OF fairseq-train ...]
#
# DATA is imdb or agnews, prepared in data/DATA if need be, or a folder that has a data-bin. Each run
# leaves in $RUNS/RECIPE-ARCH-seedN: train.log (JSON lines), the best checkpoint, and the predictions,
# test.tsv. What is finished is not repeated, and a run that was interrupted goes on; the same command
# started twice shares the runs. Other options or data than those that a run has begun with are
# refused: give them another RUNS.
#
# From the environment: RECIPE, one of
#     transevolve  Dutta et al. (2021), section 7.3 and appendix C; the default
#     transject    Sengupta et al. (2023), appendix B.1
#     small        for some thousand texts and a CPU
# SEEDS (1), and RUNS (the folder of the data).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. examples/runs.sh
PATH=$PWD/.venv/bin:$PATH
RECIPE=${RECIPE:-transevolve}

data=${1:-}
take_archs "${@:2}"
[ ${#archs[@]} -gt 0 ] || { sed -n '2,18s/^# \?//p' "$0"; exit 2; }
case $RECIPE in
    transevolve | transject | small) ;;
    *) echo "RECIPE=$RECIPE: choose from transevolve, transject, small" >&2; exit 2 ;;
esac
case $data in
    imdb | agnews)
        corpus=data/$data
        [ -e "$corpus/data-bin" ] || scripts/prepare-text-classification.sh "$data" --out "$corpus" ;;
    *) corpus=$data ;;
esac
[ -e "$corpus/data-bin" ] || {
    echo "$corpus/data-bin: make it with scripts/prepare-text-classification.sh" >&2; exit 2
}
if [ "$RECIPE" = small ]; then
    updates=$(python -c "import sys
from fairseq.data.indexed_dataset import MMapIndexedDataset
print(-(-len(MMapIndexedDataset(sys.argv[1])) * 6 // 3200) * 100)" "$corpus/data-bin/label/train")
fi

# Sets the options of an architecture.
choose_options() {
    local arch=$1
    options=()
    case $arch in
        vanilla_transformer | node_transformer)  # otherwise as large as the parity task needs
            options+=(--encoder-layers 6 --encoder-embed-dim 256 --encoder-attention-heads 8
                --token-positional-embeddings --pooling mean) ;;
        transject) options+=(--reconstruction-weight 1e-4) ;;  # the paper does not say
    esac
    case $RECIPE in
        transevolve)  # 0.5 (256 * 8000)^-0.5 at the 8,000th update
            options+=("${by_accuracy[@]}" --batch-size 80 --max-epoch 15 --lr 3.49e-4
                --lr-scheduler inverse_sqrt --warmup-updates 8000) ;;
        transject)  # stops early by the loss
            options+=(--batch-size 32 --max-epoch 30 --patience 4 --lr 5e-4
                --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 --encoder-embed-dim 512)
            case $arch in
                transformer_* | transevolve_*) options+=(--encoder-ffn-embed-dim 2048) ;;
                macaron_classifier) options+=(--encoder-ffn-embed-dim 1024) ;;
            esac ;;
        small)
            options+=("${by_accuracy[@]}" --batch-size 32 --max-epoch 6 --lr 5e-4
                --lr-scheduler polynomial_decay --warmup-updates 150 --total-num-update "$updates" --adam-betas '(0.9, 0.98)'
                --clip-norm 1)
            case $arch in
                transject*) options+=(--encoder-embed-dim 256) ;;
                node_transformer) options+=(--dropout 0.3) ;;
                *) options+=(--dropout 0.3 --embedding-dropout 0.3 --attention-dropout 0.1) ;;
            esac ;;
    esac
}

experiment() {
    local arch=$1 seed=$2 folder=$3 options
    choose_options "$arch"
    # The task cuts texts at 512 word pieces, and batches texts of about the same length.
    train_classifier "$arch" "$seed" "$folder" "$corpus/data-bin" \
        --task long_range_arena --lra-task text --max-positions 512 "${options[@]}" "${extra[@]}"
}

all_runs "$corpus" "${RUNS:-$corpus}/$RECIPE-" "${archs[@]}"
