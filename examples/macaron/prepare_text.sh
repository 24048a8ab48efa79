#!/usr/bin/env bash
# Prepare English text, one sentence per line and a blank line between documents, for pretraining.yaml
# and glue.yaml:
#
#     examples/macaron/prepare_text.sh train.txt valid.txt [MERGES]
#
# data/pretrain gets byte-pair codes (MERGES: 32640, as the authors) and data-bin. The text is normalised,
# lower-cased and tokenised as prepare-glue.sh does it.
set -euo pipefail
[ $# -eq 2 ] || [ $# -eq 3 ] || { sed -n '2,8s/^# \?//p' "$0"; exit 2; }
declare -A texts=([train]=$(realpath "$1") [valid]=$(realpath "$2"))
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH=$PWD/.venv/bin:$PATH
out=data/pretrain tmp=data/pretrain/tmp
rm -rf $tmp
mkdir -p $tmp
for split in train valid; do
    python -c "
import sys
from odeformers.prepare.glue import make_tokenizer
sys.stdout.writelines(f'{line}\n' for line in map(make_tokenizer(), sys.stdin))
" < "${texts[$split]}" > $tmp/$split.tok
done
subword-nmt learn-bpe -s "${3:-32640}" < $tmp/train.tok > $out/code
for split in train valid; do
    subword-nmt apply-bpe -c $out/code < $tmp/$split.tok > $tmp/$split.bpe
done
fairseq-preprocess --only-source --nwordssrc 32768 --trainpref $tmp/train.bpe --validpref $tmp/valid.bpe \
    --destdir $tmp/data-bin
mv $tmp/data-bin $out/data-bin
rm -r $tmp
