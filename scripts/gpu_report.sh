#!/usr/bin/env bash
# Measure what the tables have of a GPU, for at most MINUTES minutes:
#
#     MULTI30K=DATA IMDB=DATA scripts/gpu_report.sh OUT [--dry-run]
#
# the tests marked gpu; the time of training steps, of inference and of generation at d = 512 in float32, bf16
# and fp16; the Multi30k table with five seeds; and as much of IMDb as time allows. MULTI30K and IMDB are
# folders that scripts/prepare-multi30k.sh and scripts/prepare-text-classification.sh have made; what has no
# data is left out. Nothing is downloaded.
#
# OUT gets environment.txt, and a log, NAME.txt, of each step, and summary.md. Run again, the script goes on
# where it was stopped: a step that is finished is not repeated, and one that failed is tried again. The
# status is 1 while a step is not finished.
#
# --dry-run does the same on a CPU, in OUT/dry-run, with sizes that end in minutes; it says nothing of a GPU.
#
# From the environment: MINUTES (25), and WORKERS (4), trainings that share the GPU.
set -euo pipefail
dry=
case "${1:-} ${2:-}" in
    "" | " " | -*) sed -n '2,19s/^# \?//p' "$0"; exit 2 ;;
    *" --dry-run") dry=1 ;;
    *" ") ;;
    *) echo "$2: there is no such option but --dry-run" >&2; exit 2 ;;
esac
out=$(realpath -m "$1")${dry:+/dry-run}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.venv/bin:$PATH
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
for name in MULTI30K IMDB; do
    data=${!name:-}
    [ -z "$data" ] || [ -d "$data/data-bin" ] || { echo "$name=$data: no data-bin there" >&2; exit 2; }
    [ -z "$data" ] || declare "$name=$(realpath "$data")"
done

steps=() unfinished=0 running=
end=$(($(date +%s) + ${MINUTES:-25} * 60))
lengths="512 1024 2048 4096 8192" size="--embed-dim 512 --ffn-embed-dim 2048 --heads 8 --layers 6"
device="--device cuda" rounds="--rounds 9" batch=4 sentences=64 seeds="1 2 3 4 5" training=() translation_training=()
workers=${WORKERS:-4}
if [ "$dry" ]; then
    lengths="16" size="--embed-dim 32 --ffn-embed-dim 32 --heads 2 --layers 2 --vocabulary 50"
    device="--device cpu" rounds="--rounds 1" batch=2 sentences=2 seeds=1 workers=1
    training=(--cpu --num-workers 0 --train-subset valid --max-epoch 3 --encoder-embed-dim 16)
    # Another one than the validation's, which fairseq counts as epochs of the same data.
    translation_training=(--train-subset test --decoder-embed-dim 16)
elif ! python -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then
    echo "torch finds no GPU; --dry-run tries the script without one" >&2
    exit 2
fi
mkdir -p "$out"

# step NAME COMMAND ...: run a command, its output in NAME.txt, unless it has been done or time is up.
step() {
    local name=$1 left=$((end - $(date +%s))) status=0
    shift
    steps+=("$name")
    [ ! -e "$out/$name.done" ] || { echo "$name: done before"; return 0; }
    if [ "$left" -gt 0 ]; then
        echo "$name: running"
        timeout "$left" "$@" > "$out/$name.txt" 2>&1 & running=$!
        wait "$running" || status=$?
    else
        status=124
    fi
    case $status in
        0) touch "$out/$name.done"; return 0 ;;
        124) echo "$name: no time left; the same command goes on" ;;
        *) echo "$name: failed, see $out/$name.txt: $(last_line "$name")" ;;
    esac
    unfinished=1
}
trap 'kill "$running" 2> /dev/null; exit 130' INT TERM

last_line() { if [ -e "$out/$1.txt" ]; then sed '/^ *$/d' "$out/$1.txt" | tail -n 1; fi; }

compare() {  # NAME RECIPE DATA OPTION ...
    step "$1" python -m odeformers compare "examples/$2" --data "$3/data-bin" --jobs "$workers" \
        "${@:4}" "${training[@]}"
}

measure() {  # NAME WHAT OPTION ...
    # shellcheck disable=SC2086
    step "$1" python -m odeformers benchmark "${@:2}" $size $device $rounds --json "$out/$1.json"
}

{
    python - <<'PYTHON'
from odeformers.benchmark import timing
import torch
for key, value in timing.describe_environment("cuda" if torch.cuda.is_available() else "cpu").items():
    if key != "date":
        print(key, value)
PYTHON
    git log -1 --format='commit %H' 2> /dev/null || true
} > "$out/environment.tmp"
if [ -e "$out/environment.txt" ] && ! cmp -s "$out/environment.t"{xt,mp}; then
    echo "$out has figures of another commit, machine or version; give another folder" >&2
    exit 2
fi
mv "$out/environment.tmp" "$out/environment.txt"

step tests python -m pytest -q -m gpu tests
translation="transformer transevolve_fullff_1 transevolve_randomff_1 transevolve_fullff_2 macaron_transformer"
classification="transformer_classifier transevolve_classifier_fullff_1 transject macaron_classifier"
# shellcheck disable=SC2086
for precision in float32 bf16 fp16; do
    measure "train-$precision" train --models $translation --batch $((batch * 64)) --lengths 16 --precision $precision
    measure "encoder-$precision" encoder --models $translation --batch $batch --lengths $lengths \
        --dropout 0.1 --precision $precision
    measure "infer-$precision" infer --models $classification --batch $batch --lengths $lengths \
        --precision $precision
    measure "generate-$precision" generate --models $translation --batch $sentences --lengths 16 \
        --precision $precision
done

if [ "${MULTI30K:-}" ]; then
    # shellcheck disable=SC2086
    compare multi30k multi30k/recipe.yaml "$MULTI30K" --seeds $seeds --out "$out/multi30k" \
        --archs transformer_prenorm transevolve_fullff_2_prenorm macaron_transformer transevolve_fullff_2 \
        "${translation_training[@]}"
    rm -f "$out/multi30k-table.done"  # of the runs that are finished by now
    step multi30k-table python -m odeformers report "$out/multi30k"
fi
if [ "${IMDB:-}" ]; then
    compare imdb text_classification/transevolve.yaml "$IMDB" --part imdb --seeds 1 --out "$out" \
        --archs transformer_classifier_prenorm transevolve_classifier_fullff_1_prenorm transject \
        macaron_classifier
fi

{
    echo "| step | state |"
    echo "| --- | --- |"
    for name in "${steps[@]}"; do
        if [ -e "$out/$name.done" ]; then state=finished; else state="not finished: $(last_line "$name")"; fi
        echo "| $name | $state |"
    done
    for table in "$out"/{train,encoder,infer,generate}-*.txt "$out/multi30k-table.txt"; do
        if [ -e "$table" ]; then printf '\n## %s\n\n' "$(basename "$table" .txt)"; cat "$table"; fi
    done
} > "$out/summary.tmp"
mv "$out/summary.tmp" "$out/summary.md"
echo "$out/summary.md has the tables"
exit $unfinished
