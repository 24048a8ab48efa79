"""Architectures that are a registered model with other defaults."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from typing import Any

from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    register_model_architecture,
)
from hydra.core.config_store import ConfigStore


def register_preset(model: str, *names: str, **options: Any) -> None:
    """Register names for a model whose *options* are these, unless the command line sets them.

    Args:
        model: a registered model that has a dataclass.
    """

    def preset(args: Namespace) -> None:
        for option, value in options.items():
            setattr(args, option, getattr(args, option, value))

    preset.__module__ = sys._getframe(1).f_globals["__name__"]  # the caller's, perhaps a plugin's
    for name in names:
        register_model_architecture(model, name)(preset)
        register_config(name, model, options)


def register_config(name: str, model: str, options: Mapping[str, Any]) -> None:
    """Register the options of a preset as the defaults of a config of its own.

    fairseq applies a preset to a command line alone: for ``model: {_name: PRESET}`` Hydra would
    make the model with its own defaults. The config also gives an older checkpoint the options that
    are newer, and drops options that are gone.
    """
    base = MODEL_DATACLASS_REGISTRY[model]
    changed = [
        (item.name, item.type, field(default=options[item.name], metadata=item.metadata))
        for item in fields(base)
        if item.name in options
    ]
    config = make_dataclass(f"{base.__name__}_{name}", changed, bases=(base,))
    MODEL_DATACLASS_REGISTRY[name] = config
    ARCH_MODEL_NAME_REGISTRY[name] = name
    node = config()
    node._name = name
    ConfigStore.instance().store(name=name, group="model", node=node, provider="fairseq")
