#!/usr/bin/env bash
# The command odeformers with the Python of make setup, if that is there: odeformers.sh COMMAND ...
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m fairseq_odeformers "$@"
