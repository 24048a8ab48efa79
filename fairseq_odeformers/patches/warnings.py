"""Silences warnings that fairseq causes and nobody can act on; importing it is enough.

Each by its origin: what the plugin, torch or a user's code warns of is shown as before.
"""

import logging
import warnings

# fairseq's import sets the root logger up, to show everything: that is left to the program.
root = logging.getLogger()
level, handlers = root.level, root.handlers[:]
import fairseq  # noqa: E402, F401

root.setLevel(level)
root.handlers[:] = handlers

# fairseq calls functions of hydra and torch that have been renamed since.
for category, module in ((UserWarning, r"hydra\."), (FutureWarning, r"fairseq\.")):
    warnings.filterwarnings("ignore", category=category, module=module)
# These two name the caller of hydra or of torch as their origin.
for message in (r"\s*'config' is validated against ConfigStore schema", "'pin_memory' argument is"):
    warnings.filterwarnings("ignore", message, category=UserWarning)

# Where fairseq has been imported before, the root logger shows what hydra finds when debugged.
logging.getLogger("hydra").setLevel(logging.WARNING)
# It advises to install tensorboardX, whatever the task.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
