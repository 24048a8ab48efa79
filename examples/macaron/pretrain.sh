#!/usr/bin/env bash
# Pretrain small masked language models on English text, one sentence a line, one after the other:
#
#     examples/macaron/pretrain.sh train.txt valid.txt macaron_bert_base roberta_prenorm
#
# The text is normalised, lower-cased and tokenised as prepare-glue.sh does it, and byte-pair encoded
# into $DATA, which also gets the checkpoints; each architecture ends with a line, its validation loss
# in bits a masked token. The models have four layers of width 256 and, but for 3 d a layer, the same
# number of parameters.
#
# From the environment: SEED (1), UPDATES (500), and DATA (data/pretrain).
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,11s/^# \?//p' "$0"; exit 2; }
texts=(train "$(realpath "$1")" valid "$(realpath "$2")")
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH=$PWD/.venv/bin:$PATH
DATA=${DATA:-data/pretrain}
SEED=${SEED:-1}
UPDATES=${UPDATES:-500}


if [ ! -e "$DATA/data-bin/dict.txt" ]; then
    rm -rf "$DATA/tmp"
    mkdir -p "$DATA/tmp"
    for index in 0 2; do
        python -c "
import sys
from fairseq_odeformers.corpora.glue import tokenizer
sys.stdout.writelines(f'{line}\n' for line in map(tokenizer(), sys.stdin))
" < "${texts[index + 1]}" > "$DATA/tmp/${texts[index]}.tok"
    done
    subword-nmt learn-bpe -s 8000 < "$DATA/tmp/train.tok" > "$DATA/tmp/code"
    for split in train valid; do
        subword-nmt apply-bpe -c "$DATA/tmp/code" < "$DATA/tmp/$split.tok" > "$DATA/tmp/$split.bpe"
    done
    fairseq-preprocess --only-source --trainpref "$DATA/tmp/train.bpe" \
        --validpref "$DATA/tmp/valid.bpe" --destdir "$DATA/tmp/data-bin"
    mv "$DATA/tmp/code" "$DATA/code"
    mv "$DATA/tmp/data-bin" "$DATA/data-bin"
    rm -r "$DATA/tmp"
fi

for arch in "$@"; do
    case $arch in
        macaron_*) inner_width=512 ;;
        *) inner_width=1024 ;;
    esac
    checkpoints=$DATA/$arch-seed$SEED
    fairseq-train "$DATA/data-bin" --user-dir fairseq_odeformers --task masked_lm --arch "$arch" \
        --criterion masked_lm --tokens-per-sample 128 --max-positions 512 \
        --sample-break-mode complete --encoder-layers 4 --encoder-embed-dim 256 \
        --encoder-ffn-embed-dim "$inner_width" --encoder-attention-heads 4 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-6 --weight-decay 0.01 \
        --lr 1e-3 --lr-scheduler polynomial_decay --warmup-updates 100 \
        --total-num-update "$UPDATES" --max-update "$UPDATES" --max-tokens 2048 \
        --seed "$SEED" --save-dir "$checkpoints" --no-epoch-checkpoints --no-progress-bar
    log=$(fairseq-validate "$DATA/data-bin" --user-dir fairseq_odeformers --task masked_lm \
        --path "$checkpoints/checkpoint_last.pt" --max-tokens 4096 2>&1) ||
        { echo "$log" >&2; exit 1; }
    loss=$(sed -n 's/.*| loss \([0-9.]*\).*/\1/p' <<< "$log" | tail -1)
    echo "$arch, seed $SEED: validation loss $loss after $UPDATES updates"
done
