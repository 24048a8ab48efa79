#!/usr/bin/env bash
# Build the wheel as users do, install it into an environment of its own without the extras, and
# train, resume and predict with it from another folder: what `make test-wheel` runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

rm -rf build
.venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir "$folder" .
rm -rf build
VENV=$folder/venv WHEEL=$(echo "$folder"/*.whl) scripts/setup.sh

cd "$folder"
export PATH=$folder/venv/bin:$PATH
plugin=$(python -m fairseq_odeformers)
[[ $plugin = "$folder"/venv/* ]] || { echo "test-wheel: $plugin is not the installed one" >&2; exit 1; }
for epochs in 1 2; do
    fairseq-train --user-dir "$plugin" --task parity --arch node_transformer --cpu \
        --criterion sequence_classification --optimizer adam --lr 1e-3 --batch-size 126 \
        --max-epoch $epochs --save-dir run --no-progress-bar > train.log 2>&1 || { cat train.log >&2; exit 1; }
done
grep -q 'Loaded checkpoint run/checkpoint_last.pt (epoch 2 @ 1 updates)' train.log
python -m odeformers predict parity --path run/checkpoint_last.pt --split valid --cpu
echo "The wheel works from $folder."
