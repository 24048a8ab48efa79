#!/usr/bin/env bash
# Prepare GLUE tasks for fairseq-train --task sentence_prediction; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare glue "$@"
