#!/usr/bin/env bash
# Prepare WMT14 English-German or English-French for fairseq-train; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare wmt14 "$@"
