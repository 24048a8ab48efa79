#!/usr/bin/env bash
# Train an architecture on WMT14 English-German or English-French, and score it on the test set:
#
#     examples/transevolve/wmt14.sh en-de|en-fr ARCH [OPTION OF fairseq-train ...]
#
# ARCH is transevolve_fullff_1, ..._fullff_2, ..._randomff_1, ..._randomff_2, or transformer. The data
# are made if need be; a run that was interrupted goes on, and refuses other options than those that it has
# begun with. English-German ends with the scores of newstest2013 and newstest2014, English-French with
# those of newstest2014.
#
# A batch has 512 pairs of sentences. What does not fit into memory at once is split:
# --batch-size 64 --update-freq 8 (on four GPUs --update-freq 2).
#
# From the environment: SEED (1), DATA (data/wmt14-en-de or data/wmt14-en-fr), SAVE_DIR
# ($DATA/ARCH-seedSEED), and EACH: if it is set, each of the ten last checkpoints is scored on newstest2014
# before their average.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. examples/runs.sh
PATH=$PWD/.venv/bin:$PATH
SEED=${SEED:-1}

[ $# -ge 2 ] || { sed -n '2,17s/^# \?//p' "$0"; exit 2; }
pair=$1
arch=$2
shift 2
case $pair in  # tokens that a translation may have more than its source (appendix C)
    en-de) longer=50 tests=(valid test) ;;
    en-fr) longer=35 tests=(test) ;;
    *) echo "$pair: choose from en-de, en-fr" >&2; exit 2 ;;
esac
options=()
[ "$arch" != transformer ] || options+=(--share-all-embeddings --dropout 0.1)
DATA=${DATA:-data/wmt14-$pair}
save_dir=${SAVE_DIR:-$DATA/$arch-seed$SEED}
[ -e "$DATA/data-bin/dict.en.txt" ] || scripts/prepare-wmt14.sh "$pair" --out "$DATA"

mkdir -p "$save_dir"
keep "$save_dir/wmt14.options" "${*@Q}"
# 1.5 (512 * 16000)^-0.5 at the 16,000th update
fairseq-train "$DATA/data-bin" --user-dir fairseq_odeformers -s en -t "${pair#en-}" --arch "$arch" \
    "${options[@]}" --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9 \
    --lr 5.24e-4 --lr-scheduler inverse_sqrt --warmup-updates 16000 \
    --batch-size 512 --max-source-positions 256 --max-target-positions 256 --max-update 300000 \
    --save-interval-updates 2000 --keep-interval-updates 10 --no-epoch-checkpoints \
    --seed "$SEED" --save-dir "$save_dir" --no-progress-bar "$@"
python scripts/average_checkpoints.py --checkpoint-dir "$save_dir" --by update --last 10 \
    --output "$save_dir/averaged.pt"

# translate CHECKPOINT SPLIT OUTPUT
translate() {
    fairseq-generate "$DATA/data-bin" --user-dir fairseq_odeformers --gen-subset "$2" \
        --path "$save_dir/$1.pt" --beam 4 --lenpen 0.6 --max-len-a 1 --max-len-b "$longer" \
        --batch-size 128 --required-batch-size-multiple 1 --remove-bpe > "$save_dir/$3.out"
}

# score OUTPUT
score() {
    scripts/score-wmt14.sh "$pair" "$save_dir/$1.out" --reference "$DATA"/raw/newstest2014-*-ref.*.sgm
}

if [ -n "${EACH:-}" ]; then
    for checkpoint in "$save_dir"/checkpoint_*_*.pt; do
        name=$(basename "$checkpoint" .pt)
        translate "$name" test "$name"
        echo "newstest2014, $name:"
        score "$name"
    done
fi
for split in "${tests[@]}"; do translate averaged "$split" "$split"; done
if [ "$pair" = en-de ]; then
    echo "newstest2013, tokenized: $(grep '^Generate' "$save_dir/valid.out")"
fi
echo "newstest2014:"
score test
