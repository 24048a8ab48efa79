#!/usr/bin/env python3
"""Average the parameters of several checkpoints, as ``odeformers average`` does."""

import sys

from odeformers.__main__ import main

if __name__ == "__main__":
    main(["average", *sys.argv[1:]])
