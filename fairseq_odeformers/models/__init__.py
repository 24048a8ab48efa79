"""Registered models, a folder a paper; importing this package registers them all."""

from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)

from . import baselines, macaron, node_transformer, transevolve, transject  # noqa: F401

# fairseq gives a checkpoint the defaults of options that are younger, and drops those that have
# gone, for models that have a dataclass, but not for their presets.
for _arch, _model in ARCH_MODEL_NAME_REGISTRY.items():
    if ARCH_MODEL_REGISTRY[_arch].__module__.startswith(f"{__name__}."):
        MODEL_DATACLASS_REGISTRY.setdefault(_arch, MODEL_DATACLASS_REGISTRY[_model])
