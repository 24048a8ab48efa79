#!/usr/bin/env bash
# Prepare IWSLT14 German-English for fairseq-train; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare iwslt14 "$@"
