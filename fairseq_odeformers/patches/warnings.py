"""Filters of warnings that fairseq causes and that users cannot act on."""

import importlib
import logging
import warnings

HYDRA = r"hydra\.|fairseq_cli\.hydra_train"


def import_fairseq() -> None:
    """Import fairseq and restore the program's logging.

    fairseq's ``wav2vec2_classification`` and ``text_to_speech`` set the level and the handlers of
    the root logger (``logging.basicConfig``), and advise installing tensorboardX. This function
    can be removed once fairseq's modules no longer set up logging.
    """
    root = logging.getLogger()
    level, handlers, disabled = root.level, root.handlers[:], root.manager.disable
    logging.disable(logging.INFO)
    try:
        importlib.import_module("fairseq")
    finally:
        logging.disable(disabled)
        root.setLevel(level)
        root.handlers[:] = handlers


def filter_warnings() -> None:
    """Hide warnings attributed to fairseq or hydra, and three attributed to the caller or torch.

    The third concerns fairseq's decoders: they mask padding with booleans and later tokens with
    floats.
    """
    for category, module in ((UserWarning, HYDRA), (FutureWarning, r"fairseq\.")):
        warnings.filterwarnings("ignore", category=category, module=module)
    warnings.filterwarnings(
        "ignore",
        r"\s*'.*' is validated against ConfigStore schema|'pin_memory' argument is"
        "|Support for mismatched key_padding_mask and attn_mask",
        category=UserWarning,
    )
