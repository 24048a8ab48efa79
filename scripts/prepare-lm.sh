#!/usr/bin/env bash
# Prepare your own tokenised text for fairseq-train --task language_modeling; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare lm "$@"
