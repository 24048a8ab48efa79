#!/usr/bin/env bash
# Prepare IMDb, AG News or your own labelled text for fairseq-train --task sentence_prediction;
# --help lists the options.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m fairseq_odeformers.data.text_classification "$@"
