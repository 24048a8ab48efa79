#!/usr/bin/env bash
# Prepare WMT14 English-German or English-French for fairseq-train; --help lists the options.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m fairseq_odeformers.data.wmt14 "$@"
