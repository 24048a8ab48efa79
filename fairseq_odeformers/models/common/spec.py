"""Specs: how options of a model reach the layers of its encoder and decoder."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

AnySpec = TypeVar("AnySpec", bound="Spec")


@dataclass(frozen=True)
class Spec:
    """Base of the dataclasses from which layers are built: options of a model, for one side.

    The field ``embed_dim`` of an encoder is the option ``encoder_embed_dim``; a field whose option
    has no side, such as ``time_dim``, is the same for both sides. An option that a derived model
    adds reaches the layers if a derived spec has a field of its name.
    """

    @classmethod
    def from_options(cls: type[AnySpec], cfg: Mapping[str, Any], side: str) -> AnySpec:
        """The spec of the ``encoder`` or the ``decoder``, from the options of a model.

        An option of the side replaces one of the same name without a side. A field without an
        option keeps its default.
        """
        values, start = dict(cfg), f"{side}_"
        values |= {k.removeprefix(start): v for k, v in cfg.items() if k.startswith(start)}
        return cls(**{f.name: values[f.name] for f in fields(cls) if f.name in values})
