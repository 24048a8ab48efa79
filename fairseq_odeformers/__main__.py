"""``python -m fairseq_odeformers`` is the command ``odeformers``."""

from fairseq_odeformers.cli import main

main()
