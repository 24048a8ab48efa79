"""Changes to fairseq's models: registration under a unique name, RoBERTa's segment embeddings."""

import logging
import sys
from argparse import SUPPRESS

from fairseq import models
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_INV_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)

from fairseq_odeformers.modules.segment_embedding import SegmentEmbedding

from .ownership import error_if, is_ours

logger = logging.getLogger(__name__)

WEIGHT = "encoder.sentence_encoder.embed_tokens.segments.weight"


def register_model(original, name, dataclass=None):
    """Return fairseq's decorator, but refuse the name of another class, and use an edited class.

    If a notebook's cell or a module runs again, the new class replaces the earlier one.

    Raises:
        ValueError: another class has this name, and one of the two belongs to this package.
    """

    def register(cls):
        earlier = MODEL_REGISTRY.get(name, cls)
        if (earlier.__module__, earlier.__qualname__) != (cls.__module__, cls.__qualname__):
            with error_if(is_ours(cls, earlier)):
                raise ValueError(
                    f"@register_model({name!r}): {earlier.__module__} has a model of this name; "
                    "choose a different one"
                )
        elif earlier is not cls:
            forget(name)
        return original(name, dataclass)(cls)

    return register


def forget(name: str) -> None:
    """Remove a model and its architectures, so that their code can register them again."""
    del MODEL_REGISTRY[name]
    MODEL_DATACLASS_REGISTRY.pop(name, None)
    for arch in ARCH_MODEL_INV_REGISTRY.pop(name, ()):
        for registry in (ARCH_MODEL_REGISTRY, ARCH_MODEL_NAME_REGISTRY, ARCH_CONFIG_REGISTRY):
            registry.pop(arch, None)


def replace_imported_register_model() -> None:
    """Replace fairseq's decorator in modules that imported it before this package."""
    replacement = models.register_model
    for module in [*sys.modules.values()]:
        names = getattr(module, "__dict__", {})
        for name in [name for name in names if names[name] is replacement.__wrapped__]:
            names[name] = replacement


def add_segment_args(original, parser):
    """Add ``--segment-embeddings`` to RoBERTa's options.

    A plugin's model may derive from RoBERTa and replace the option with its own of this name.
    """
    original(parser)
    parser.conflict_handler = "resolve"
    parser.add_argument(
        "--segment-embeddings",
        action="store_true",
        default=SUPPRESS,
        help="add a learned embedding of the segment, the first or the second text, to each token",
    )


def build_embedding(original, self, vocab_size, embedding_dim, padding_idx):
    """Build a :class:`.SegmentEmbedding` if ``--segment-embeddings`` is set."""
    if not getattr(self.args, "segment_embeddings", False):
        return original(self, vocab_size, embedding_dim, padding_idx)
    return SegmentEmbedding(vocab_size, embedding_dim, padding_idx, self.dictionary.eos())


def upgrade_state_dict_named(original, self, state_dict, name):
    """Keep the initial segment embeddings if a checkpoint has none, as fairseq does with heads.

    Raises:
        ValueError: the checkpoint has segment embeddings, and the model has none.
    """
    original(self, state_dict, name)
    key, initial = f"{name}.{WEIGHT}" if name else WEIGHT, self.state_dict().get(WEIGHT)
    if key in state_dict and initial is None:
        raise ValueError("it has segment embeddings; set --segment-embeddings")
    if key not in state_dict and initial is not None:
        logger.warning(f"{key} is not in the checkpoint and keeps its initial values")
        state_dict[key] = initial
