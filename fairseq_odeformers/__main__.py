"""The command ``python -m fairseq_odeformers``: the folder to pass to ``--user-dir``."""

import sys
from pathlib import Path

if sys.argv[1:]:
    sys.exit("fairseq_odeformers: error: for its commands, run python -m odeformers")
print(Path(__file__).parent)
