#!/usr/bin/env bash
# Run a module of the package with the Python of make setup, if that is there: run-module.sh NAME ...
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m "fairseq_odeformers.$1" "${@:2}"
