#!/usr/bin/env bash
# BLEU of the output of fairseq-generate on the WMT14 test set; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" score-wmt14 "$@"
