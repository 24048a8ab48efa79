#!/usr/bin/env bash
# The command odeformers with the Python of make setup, if that is there: odeformers.sh COMMAND ...
# By a link's name it is one of its commands: prepare-glue.sh is odeformers.sh prepare glue.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}
name=$(basename "$0" .sh)
case $name in
    prepare-parallel-text) set -- prepare parallel "$@" ;;
    prepare-*) set -- prepare "${name#prepare-}" "$@" ;;
    score-wmt14) set -- score-wmt14 "$@" ;;
esac
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m odeformers "$@"
