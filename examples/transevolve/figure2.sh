#!/usr/bin/env bash
# Train TransEvolve-fullFF-2 on WMT14 with six learning rates and warm-ups, and draw the BLEU (Dutta et al.
# 2021, Figure 2 and appendix C):
#
#     examples/transevolve/figure2.sh [--part PART ...] [OPTION OF fairseq-train ...]
#
# The runs are called en-de-1.0-4000 and so on: pair of languages, lr_max, warm-up. PART is the start of
# such names: en-de, en-fr-1.5, en-de-1.5-16000. Each run is one of wmt14.sh, which see for the options, and
# leaves in $RUNS/PAIR-LR-WARMUP-seedN train.log, the averaged checkpoint, and scores.txt, the BLEU of
# newstest2014 by each of the last ten checkpoints and by their average. What is finished is not repeated,
# and a run that was interrupted goes on; the same command started twice shares the runs. What is finished
# is drawn in $RUNS/figure2.png.
#
# From the environment: SEEDS (1 2 3 4 5), RUNS (data/wmt14-figure2), and for --part of one pair of
# languages DATA, as of wmt14.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
SEEDS=${SEEDS:-1 2 3 4 5}
. examples/runs.sh
PATH=$PWD/.venv/bin:$PATH
RUNS=${RUNS:-data/wmt14-figure2}

case ${1:-} in --help | [!-]*) sed -n '2,15s/^# \?//p' "$0"; exit 2 ;; esac
take_parts "$(echo en-{de,fr}-{1.0,1.5}-{4000,8000,16000})" "$@"

experiment() {
    local seed=$2 folder=$3 factor warmup
    IFS=- read -r _ _ factor warmup <<< "$1"
    if [ ! -e "$folder/scores.txt" ]; then
        echo "$1, seed $seed: training, see $folder/train.log"
        # The schedule is lr_max d^-0.5 min(step^-0.5, step warmup^-1.5); fairseq wants its peak.
        SEED=$seed SAVE_DIR=$folder EACH=1 logged "$folder/train.log" \
            examples/transevolve/wmt14.sh "${1:0:5}" transevolve_fullff_2 \
            --lr "$(awk "BEGIN { printf \"%.3g\", $factor * (512 * $warmup) ^ -0.5 }")" \
            --warmup-updates "$warmup" "${extra[@]}"
        complete "$folder/scores.txt" grep '^tokenized: ' "$folder/train.log"
    fi
    rm -f "$folder"/checkpoint_*.pt
}

all_runs "${DATA:-data}" "$RUNS/" "${parts[@]}"
python examples/transevolve/figure2.py "$RUNS"
