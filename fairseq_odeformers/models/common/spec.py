"""The way of an option to a layer: what the layers of an encoder or a decoder are built from."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

AnySpec = TypeVar("AnySpec", bound="Spec")


@dataclass(frozen=True)
class Spec:
    """The base of what layers are built from: options of a model, as one of its sides has them.

    A field has the name of an option, without the side if the option begins with it: the field
    ``embed_dim`` of an encoder is the option ``encoder_embed_dim``, the field ``dropout`` is the
    option ``dropout``. An option without a side, such as ``--time-dim``, reaches both sides. So an
    option that a derived model adds reaches the layers if a derived spec has a field for it.
    """

    @classmethod
    def from_options(cls: type[AnySpec], cfg: Mapping[str, Any], side: str) -> AnySpec:
        """The spec of the ``encoder`` or the ``decoder``, from the options of a model.

        A field without an option keeps its default.
        """
        options = dict(cfg)
        options.update({k[len(side) + 1 :]: v for k, v in cfg.items() if k.startswith(f"{side}_")})
        return cls(**{f.name: options[f.name] for f in fields(cls) if f.name in options})
