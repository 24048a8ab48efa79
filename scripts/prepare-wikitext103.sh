#!/usr/bin/env bash
# Prepare WikiText-103 for fairseq-train --task language_modeling; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare wikitext103 "$@"
