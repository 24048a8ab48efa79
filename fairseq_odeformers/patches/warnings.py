"""Silences what fairseq causes on import and in each training, and nobody can act on.

=================================  =================================================================
change                             why; until when
=================================  =================================================================
level and handlers of the root     Importing fairseq sets them (``logging.basicConfig`` in
logger                             ``wav2vec2_classification`` and ``text_to_speech``), and advises
                                   to install tensorboardX. They are set back, which is left to the
                                   program. Until fairseq's modules set up no logging.
filters of ``warnings``            fairseq calls functions of hydra and torch that were renamed
                                   since. Until fairseq calls the new ones. Warnings of the plugin,
                                   of torch and of a user's code are shown as before.
=================================  =================================================================
"""

import logging
import warnings

root = logging.getLogger()
level, handlers, disabled = root.level, root.handlers[:], root.manager.disable
logging.disable(logging.INFO)
import fairseq  # noqa: E402, F401

logging.disable(disabled)
root.setLevel(level)
root.handlers[:] = handlers

HYDRA = r"hydra\.|fairseq_cli\.hydra_train"
for category, module in ((UserWarning, HYDRA), (FutureWarning, r"fairseq\.")):
    warnings.filterwarnings("ignore", category=category, module=module)
# These two name as their origin the caller of hydra or of torch.
warnings.filterwarnings(
    "ignore",
    r"\s*'.*' is validated against ConfigStore schema|'pin_memory' argument is",
    category=UserWarning,
)
