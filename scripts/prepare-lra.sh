#!/usr/bin/env bash
# Prepare the Long Range Arena for fairseq-train --task long_range_arena; --help lists the options.
exec "$(dirname "${BASH_SOURCE[0]}")/odeformers.sh" prepare lra "$@"
