#!/usr/bin/env bash
# Prepare the Penn Treebank for fairseq-train --task language_modeling; --help lists the options.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m fairseq_odeformers.data.ptb "$@"
