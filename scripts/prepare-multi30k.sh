#!/usr/bin/env bash
# Prepare Multi30k German-English for fairseq-train; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare multi30k "$@"
