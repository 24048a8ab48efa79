#!/usr/bin/env bash
# Prepare the Long Range Arena for fairseq-train --task long_range_arena; --help lists the options.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m fairseq_odeformers.data.lra "$@"
