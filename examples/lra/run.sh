#!/usr/bin/env bash
# Train classifiers on a task of the Long Range Arena, and print their accuracy on the test set:
#
#     SEEDS="1 2 3" examples/lra/run.sh TASK ARCH ... [OPTION OF fairseq-train ...]
#
# TASK is listops, text, retrieval, pathfinder or image, as scripts/prepare-lra.sh leaves it in
# data/lra, or listops-short, generated here. Each run leaves in $RUNS/TASK-RECIPE-ARCH-seedN: train.log
# (JSON lines), the best checkpoint, and the predictions, test.tsv. What is finished is not repeated,
# and a run that was interrupted goes on; the same command started twice shares the runs. Other options
# or data than those that a run has begun with are refused: give them another RUNS.
#
# From the environment: RECIPE, one of
#     transevolve  Dutta et al. (2021), appendix C; for listops and text
#     transject    Sengupta et al. (2023), who take the settings of Chen et al. (2021, Skyformer); the
#                  default
#     small        for listops-short and a CPU; the only one for it
# SEEDS (1), DATA (data/lra), and RUNS ($DATA).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. examples/runs.sh
PATH=$PWD/.venv/bin:$PATH
DATA=${DATA:-data/lra}

task=${1:-}
take_archs "${@:2}"
[ ${#archs[@]} -gt 0 ] || { sed -n '2,19s/^# \?//p' "$0"; exit 2; }
RECIPE=${RECIPE:-$([ "$task" = listops-short ] && echo small || echo transject)}
case $task-$RECIPE in
    listops-short-small) ;;
    listops-short-* | *-small)
        echo "RECIPE=$RECIPE: small is for listops-short, and the only one for it" >&2; exit 2 ;;
esac

data=$DATA/$task-bin
recipe=(--lra-task "$task")
width=256 inner_width=1024 heads=8 layers=6 dropout=()
case $RECIPE in
    transevolve)  # 0.5 (256 * 8000)^-0.5 at the 8,000th update
        case $task in
            listops) batch=64 ;;
            text) batch=48 ;;
            *) echo "RECIPE=transevolve: choose from listops, text" >&2; exit 2 ;;
        esac
        recipe+=(--max-epoch 15 --lr 3.49e-4 --lr-scheduler inverse_sqrt --warmup-updates 8000) ;;
    transject)
        width=64 inner_width=128 heads=2 layers=2
        dropout=(--dropout 0.1 --embedding-dropout 0.1 --attention-dropout 0.1)
        case $task in
            listops) batch=32 lr=1e-4 warmup=1000 ;;
            text) batch=32 lr=1e-4 warmup=80 ;;
            retrieval) batch=16 lr=2e-4 warmup=800 ;;
            pathfinder) batch=128 lr=2e-4 warmup=312 ;;
            image) batch=256 lr=1e-4 warmup=175 ;;
            *) echo "$task: choose from listops, text, retrieval, pathfinder, image, listops-short" >&2
               exit 2 ;;
        esac
        recipe+=(--max-update 50000 --lr "$lr" --lr-scheduler polynomial_decay
            --warmup-updates "$warmup" --total-num-update 50000
            --save-interval-updates 500 --keep-interval-updates 1) ;;
    small)
        data=$DATA/listops-short/data-bin width=128 inner_width=512 batch=32
        dropout=(--dropout 0.1 --embedding-dropout 0.1)
        recipe=(--lra-task listops --max-epoch 6 --lr 5e-4 --lr-scheduler polynomial_decay
            --warmup-updates 300 --total-num-update 3600 --adam-betas '(0.9, 0.98)' --clip-norm 1)
        [ -e "$data" ] || odeformers prepare listops --out "$DATA/listops-short" \
            --train 18000 --valid 1000 --test 1000 --min-length 30 --max-length 120 ;;
    *) echo "RECIPE=$RECIPE: choose from transevolve, transject, small" >&2; exit 2 ;;
esac
[ -e "$data" ] || { echo "$data: make it with scripts/prepare-lra.sh" >&2; exit 2; }

# Sets the options of an architecture, beside those of the recipe.
choose_options() {
    local arch=$1 inner_width=$inner_width dropout=("${dropout[@]}")
    options=()
    case $arch in
        transject*)  # its size is the paper's own; the other recipes give it theirs
            [[ $arch = *_random ]] || options+=(--reconstruction-weight 1e-4)  # the paper does not say
            if [ "$RECIPE" != transject ]; then
                options+=(--encoder-layers "$layers" --encoder-embed-dim "$width")
            elif [ "$task" = text ]; then
                options+=(--pooling mean)
            fi
            return ;;
        transevolve_classifier_*_1 | transevolve_classifier_*_1_prenorm)
            options+=(--encoder-depth "$layers") ;;
        transevolve_classifier_*_2 | transevolve_classifier_*_2_prenorm)
            options+=(--encoder-depth $((layers / 2))) ;;
        macaron_classifier)
            options+=(--encoder-layers "$layers")
            inner_width=$((inner_width / 2)) ;;
        vanilla_transformer | node_transformer)  # otherwise as large as the parity task needs
            options+=(--encoder-layers "$layers" --token-positional-embeddings
                --pooling mean) ;;
        *) options+=(--encoder-layers "$layers") ;;
    esac
    case $RECIPE-$arch in
        transject-transformer_* | transject-macaron_* | transject-vanilla_*)
            options+=(--encoder-learned-pos) ;;  # as in Skyformer's configuration
    esac
    if [ "$arch" = node_transformer ]; then dropout=("${dropout[@]:0:2}"); fi  # it has no other
    options+=("${dropout[@]}" --encoder-embed-dim "$width"
        --encoder-attention-heads "$heads" --encoder-ffn-embed-dim "$inner_width")
}

experiment() {
    local arch=$1 seed=$2 folder=$3 options
    choose_options "$arch"
    train_classifier "$arch" "$seed" "$folder" "$data" \
        --task long_range_arena "${by_accuracy[@]}" --batch-size "$batch" \
        "${recipe[@]}" "${options[@]}" "${extra[@]}"
}

all_runs "$data" "${RUNS:-$DATA}/$task-$RECIPE-" "${archs[@]}"
