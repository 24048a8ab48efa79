#!/usr/bin/env bash
# Prepare IMDb, AG News or your own labelled text for fairseq-train --task sentence_prediction;
# --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare text-classification "$@"
