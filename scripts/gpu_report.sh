#!/usr/bin/env bash
# Measure what the tables have of a GPU, within 25 minutes on an H100:
#
#     MULTI30K=DATA IMDB=DATA scripts/gpu_report.sh OUT [--dry-run]
#
# the tests marked gpu; the time of training steps, of inference and of generation at d = 512 in float32, bf16
# and fp16; the Multi30k table with five seeds; and as much of IMDb as time allows. MULTI30K and IMDB are
# folders that scripts/prepare-multi30k.sh and scripts/prepare-text-classification.sh have made; what has no
# data is left out. Nothing is downloaded.
#
# OUT gets environment.txt, and a log, NAME.txt, of each step, and summary.md. Run again, the script goes on
# where it was stopped: a step that is finished is not repeated, and one that failed is tried again.
#
# --dry-run does the same on a CPU with sizes that end in minutes, and says nothing of a GPU.
#
# From the environment: MINUTES (25), and WORKERS (4), trainings that share the GPU.
set -euo pipefail
out=$(realpath -m "${1:-}") dry=
case "${1:-} ${2:-}" in
    "" | " " | -*) sed -n '2,19s/^# \?//p' "$0"; exit 2 ;;
    *" --dry-run") dry=1 ;;
    *" ") ;;
    *) echo "$2: there is no such option but --dry-run" >&2; exit 2 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.venv/bin:$PATH
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
for name in MULTI30K IMDB; do
    data=${!name:-}
    [ -z "$data" ] || [ -d "$data/data-bin" ] || { echo "$name=$data: no data-bin there" >&2; exit 2; }
    [ -z "$data" ] || declare "$name=$(realpath "$data")"
done

end=$(($(date +%s) + ${MINUTES:-25} * 60))
lengths="512 1024 2048 4096 8192" size="--embed-dim 512 --ffn-embed-dim 2048 --heads 8 --layers 6"
device="--device cuda" rounds="--rounds 9" batch=4 sentences=64 seeds="1 2 3 4 5" training=() workers=${WORKERS:-4}
if [ "$dry" ]; then
    lengths="16" size="--embed-dim 32 --ffn-embed-dim 32 --heads 2 --layers 2 --vocabulary 50"
    device="--device cpu" rounds="--rounds 1" batch=2 sentences=2 seeds=1 workers=1
    training=(--cpu --max-update 2 --num-workers 0)
elif ! python -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then
    echo "torch finds no GPU; --dry-run tries the script without one" >&2
    exit 2
fi
mkdir -p "$out"

# step NAME COMMAND ...: run a command, its output in NAME.txt, unless it has been done or time is up.
step() {
    local name=$1 left=$((end - $(date +%s))) status=0
    shift
    [ ! -e "$out/$name.done" ] || { echo "$name: done before"; return 0; }
    [ "$left" -gt 0 ] || { echo "$name: no time left"; return 0; }
    echo "$name: running"
    timeout "$left" "$@" > "$out/$name.txt" 2>&1 || status=$?
    case $status in
        0) touch "$out/$name.done" ;;
        124) echo "$name: stopped by the clock; the same command goes on" ;;
        *) echo "$name: failed, see $out/$name.txt: $(sed '/^ *$/d' "$out/$name.txt" | tail -n 1)" ;;
    esac
}

# The same command several times at once: the runs of an experiment are shared.
shared() {
    export -f shared_runs
    WORKERS=$workers step "$1" bash -c 'shared_runs "$@"' bash "${@:2}"
}

shared_runs() {
    local status=0 pids=() pid
    for _ in $(seq "$WORKERS"); do "$@" & pids+=($!); done
    for pid in "${pids[@]}"; do wait "$pid" || status=1; done
    return $status
}

measure() {  # NAME WHAT OPTION ...
    # shellcheck disable=SC2086
    step "$1" python -m fairseq_odeformers.benchmark "${@:2}" $size $device $rounds --json "$out/$1.json"
}

python - > "$out/environment.txt" <<'PYTHON'
from fairseq_odeformers.benchmark import timing
import torch
for key, value in timing.environment("cuda" if torch.cuda.is_available() else "cpu").items():
    print(key, value)
PYTHON
git log -1 --format='commit %H' >> "$out/environment.txt" 2>/dev/null || true

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
    export SEEDS=$seeds DATA=$MULTI30K RUNS=$out/multi30k
    shared multi30k examples/multi30k/run.sh transevolve_fullff_2_prenorm transformer_prenorm \
        macaron_transformer transevolve_fullff_2 "${training[@]}"
    rm -f "$out/multi30k-table.done"  # of the runs that are finished by now
    step multi30k-table python examples/report.py "$RUNS" --data "$DATA" --baseline transformer_prenorm
fi
if [ "${IMDB:-}" ]; then
    SEEDS=1 RUNS=$out/imdb shared imdb examples/text_classification/run.sh "$IMDB" \
        transevolve_classifier_fullff_1_prenorm transject macaron_classifier \
        transformer_classifier_prenorm "${training[@]}"
fi

{
    echo "| step | state |"
    echo "| --- | --- |"
    for log in "$out"/*.txt; do
        name=$(basename "$log" .txt)
        state="not finished: $(sed '/^ *$/d' "$log" | tail -n 1)"
        if [ "$name" = environment ] || [ -e "$out/$name.done" ]; then state=finished; fi
        echo "| $name | $state |"
    done
    for table in "$out"/{train,encoder,infer,generate}-*.txt "$out/multi30k-table.txt"; do
        if [ -e "$table" ]; then printf '\n## %s\n\n' "$(basename "$table" .txt)"; cat "$table"; fi
    done
} > "$out/summary.md"
echo "$out/summary.md has the tables"
