"""``python -m fairseq_odeformers`` is the command ``odeformers``."""

from odeformers import main

main()
