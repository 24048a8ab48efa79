#!/usr/bin/env bash
# Prepare parallel text of your own for fairseq-train; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare parallel "$@"
