#!/usr/bin/env bash
# Fine-tune a pretrained masked language model on a task of GLUE: CoLA, SST-2, MRPC, STS-B, QQP, MNLI,
# QNLI or RTE.
#
#     examples/macaron/glue.sh TASK CHECKPOINT [OPTION OF fairseq-train ...]
#
# The task's metric on its development set is in the log of every epoch; checkpoint_best.pt has the
# best. A run that was interrupted goes on; what it has not begun with, another CHECKPOINT, LR or option,
# needs another SAVE_DIR. CHECKPOINT "none" trains from scratch. The data comes from
# scripts/prepare-glue.sh, given the byte-pair codes and the dictionary of the pretraining corpus.
#
# From the environment: DATA (data/glue), ARCH (macaron_bert_base), SEED (1), SAVE_DIR
# ($DATA/$ARCH-$task-seed$SEED), and EPOCHS, BATCH and LR. The defaults of the last three are those of
# the authors' code for the task; the paper searches epochs 3, 4, 5, batches of 16 and 32 and rates of
# 5e-5 (printed as 5e-3) and 3e-5 on the development set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. examples/runs.sh
PATH=$PWD/.venv/bin:$PATH
DATA=${DATA:-data/glue}
ARCH=${ARCH:-macaron_bert_base}
SEED=${SEED:-1}

[ $# -ge 2 ] || { sed -n '2,15s/^# \?//p' "$0"; exit 2; }
task=$1
checkpoint=$2
shift 2

classes=2
weight_decay=0
metric=accuracy
options=()
case $task in  # with the number of training examples
    CoLA) size=8551 epochs=5 batch=32 lr=3e-5 metric=mcc ;;
    SST-2) size=67349 epochs=3 batch=24 lr=5e-5 ;;
    MRPC) size=3668 epochs=4 batch=16 lr=5e-5 metric=acc_and_f1 ;;
    STS-B) size=5749 epochs=5 batch=16 lr=5e-5 metric=pearson_and_spearman classes=1 ;;
    QQP) size=363846 epochs=5 batch=16 lr=5e-5 metric=acc_and_f1 ;;
    MNLI) size=392702 epochs=3 batch=24 lr=5e-5 classes=3 options+=(--valid-subset valid,valid1) ;;
    QNLI) size=104743 epochs=4 batch=16 lr=3e-5 weight_decay=0.01 ;;
    RTE) size=2490 epochs=4 batch=16 lr=5e-5 ;;
    *) echo "$task: choose from CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE" >&2; exit 2 ;;
esac
EPOCHS=${EPOCHS:-$epochs}
BATCH=${BATCH:-$batch}
LR=${LR:-$lr}
save_dir=${SAVE_DIR:-$DATA/$ARCH-$task-seed$SEED}
updates=$(((size + BATCH - 1) / BATCH * EPOCHS))

[ -e "$DATA/$task-bin" ] || { echo "$DATA/$task-bin: make it with prepare-glue.sh" >&2; exit 2; }
if [ "$checkpoint" != none ]; then
    [ -e "$checkpoint" ] || { echo "$checkpoint: no such checkpoint" >&2; exit 2; }
    options+=(--finetune-from-model "$checkpoint")
fi
[ "$task" != STS-B ] || options+=(--regression-target)
if [ "$metric" != accuracy ]; then
    reports="from fairseq.criterions import sentence_prediction as criterion
print(hasattr(criterion.SentencePredictionConfig, 'report_mcc'))"
    if [ "$(python -c "$reports")" = True ]; then
        options+=("--report-${metric//_/-}")
    else
        [ "$task" = STS-B ] && fallback=loss || fallback=accuracy
        echo "This version of fairseq does not report $metric; $fallback chooses the best." >&2
        metric=$fallback
    fi
fi
[ "$metric" = loss ] || options+=(--maximize-best-checkpoint-metric)

mkdir -p "$save_dir"
keep "$save_dir/options" "$checkpoint $EPOCHS $BATCH $LR ${*@Q}"
fairseq-train "$DATA/$task-bin" --user-dir fairseq_odeformers --arch "$ARCH" \
    --task sentence_prediction --criterion sentence_prediction --num-classes "$classes" \
    --init-token 0 --separator-token 2 --max-positions 512 --shorten-method truncate \
    --optimizer adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-6 --clip-norm 0 \
    --weight-decay "$weight_decay" --lr "$LR" --lr-scheduler polynomial_decay \
    --total-num-update "$updates" --warmup-updates $((updates / 10)) --max-epoch "$EPOCHS" \
    --batch-size "$BATCH" --required-batch-size-multiple 1 --seed "$SEED" \
    --best-checkpoint-metric "$metric" --no-epoch-checkpoints \
    --save-dir "$save_dir" --no-progress-bar "${options[@]}" "$@"
