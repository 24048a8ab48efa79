"""Registered models, a folder a paper; importing this package registers them all."""

from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY

from fairseq_odeformers.options import register_preset_config

from . import baselines, macaron, node_transformer, transevolve, transject  # noqa: F401

# fairseq's command line knows presets; a configuration of Hydra's, or an old checkpoint, does not.
for _arch, _model in ARCH_MODEL_NAME_REGISTRY.items():
    if ARCH_MODEL_REGISTRY[_arch].__module__.startswith(f"{__name__}.") and _arch != _model:
        register_preset_config(_arch, _model)
