#!/usr/bin/env bash
# BLEU of the output of fairseq-generate on the WMT14 test set; --help lists the options.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m fairseq_odeformers.data.wmt14_score "$@"
