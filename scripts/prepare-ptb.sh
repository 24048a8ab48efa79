#!/usr/bin/env bash
# Prepare the Penn Treebank for fairseq-train --task language_modeling; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare ptb "$@"
