#!/usr/bin/env bash
# Train TransJect and the Transformer in several sizes on IMDb and character-level IMDb, and analyse their
# hidden states (Sengupta et al. 2023, Figure 6; with it the ablations of section 4, one expert and one
# head):
#
#     examples/transject/figure6.sh [--part PART ...] [OPTION OF fairseq-train ...]
#
# The sizes are called imdb-transject-experts1, charimdb-transformer-dropout0.3 and so on; ...-paper is that
# of the paper's tables, of which the others change one thing. PART is the start of such names: imdb,
# charimdb-transject, imdb-transject-experts1. Each run is one of text_classification/run.sh or lra/run.sh
# with RECIPE=transject, in $RUNS/NAME. What is finished is not repeated, and a run that was interrupted
# goes on; the same command started twice shares the runs. The analyses of all sizes that are finished, one
# of each data set and model, are in $RUNS/imdb-transject and so on.
#
# From the environment: SEEDS (1 2 3), RUNS (data/figure6), and DATA (data/lra), of character-level IMDb.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
SEEDS=${SEEDS:-1 2 3}
. examples/runs.sh
PATH=$PWD/.venv/bin:$PATH
RUNS=${RUNS:-data/figure6}
export SEEDS RECIPE=transject

case ${1:-} in --help | [!-]*) sed -n '2,16s/^# \?//p' "$0"; exit 2 ;; esac
# The paper names E = 1 and one head; the other values are chosen here. Its own are L = 6 on IMDb and 2 on
# character-level IMDb.
take_parts "$(echo {imdb,charimdb}-transject-{paper,experts{1,2,8}} \
    {imdb,charimdb}-transformer-{paper,heads1,dropout{0,0.3,0.5}} \
    imdb-{transject,transformer}-layers{2,4} charimdb-{transject,transformer}-layers{4,6})" "$@"

# train DATA MODEL SIZE
train() {
    local options=() value=${3//[a-z]/}
    case $3 in
        experts*) options=(--encoder-experts "$value") ;;
        heads*) options=(--encoder-attention-heads "$value") ;;
        layers*) options=(--encoder-layers "$value") ;;
        dropout*) options=(--dropout "$value") ;;
    esac
    case $1-$2 in
        imdb-transject) set -- text_classification/run.sh imdb transject ;;
        imdb-transformer) set -- text_classification/run.sh imdb transformer_classifier ;;
        charimdb-transject) set -- lra/run.sh text transject_lra ;;
        charimdb-transformer) set -- lra/run.sh text transformer_classifier ;;
    esac
    "examples/$1" "${@:2}" "${options[@]}" "${extra[@]}"
}

failed=0
for part in "${parts[@]}"; do
    echo "$part"
    IFS=- read -r data model size <<< "$part"
    RUNS=$RUNS/$part train "$data" "$model" "$size" || failed=1
done

for panel in {imdb,charimdb}-{transject,transformer}; do
    checkpoints=()
    for predictions in "$RUNS/$panel"-*/*/test.tsv; do
        [ ! -e "$predictions" ] || checkpoints+=("${predictions%/*}/checkpoint_best.pt")
    done
    [ ${#checkpoints[@]} -gt 0 ] || continue
    case $panel in
        imdb-*) data=data/imdb/data-bin ;;
        charimdb-*) data=${DATA:-data/lra}/text-bin ;;
    esac
    python -m fairseq_odeformers analyse states "${checkpoints[@]}" --data "$data" --out "$RUNS/$panel"
done
exit $failed
