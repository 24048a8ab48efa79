"""Options of models, criterions and tasks, declared with their bounds."""

import math
import operator
from argparse import Action, ArgumentError, ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from .errors import did_you_mean

LARGEST = 2**31 - 1  # the largest whole number that torch accepts as a size
SIDES = ("encoder", "decoder")  # prefixes of names of options


@dataclass(frozen=True)
class Bounds:
    """The values that an option may take; :func:`validate` checks them.

    A number that is not finite, or a whole number above :data:`LARGEST`, is outside of all bounds.

    Attributes:
        at_least, above, at_most, below: limits.
        multiple_of: a number, or the name of an option, that must divide the value; or several.
        choices: values of an option of type ``str``.
    """

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    multiple_of: int | tuple[int | str, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def limits(self) -> list[tuple[str, float, Callable[[float, float], bool]]]:
        """The limits that are set: the name, the limit, and the comparison that holds inside."""
        limits = (
            ("at least", self.at_least, operator.ge),
            ("above", self.above, operator.gt),
            ("at most", self.at_most, operator.le),
            ("below", self.below, operator.lt),
        )
        return [(name, limit, holds) for name, limit, holds in limits if limit is not None]

    @property
    def range(self) -> str:
        """The limits in words, such as ``at least 0 and below 1``."""
        return " and ".join(f"{name} {limit:g}" for name, limit, _ in self.limits)

    @property
    def divisors(self) -> tuple[int | str, ...]:
        """The numbers and names of options that must divide the value."""
        return self.multiple_of if isinstance(self.multiple_of, tuple) else (self.multiple_of,)

    def describe(self, config: type) -> str:
        """The values in words, such as ``one of euler, midpoint, rk4``; "" if all are allowed.

        Args:
            config: the dataclass of the option; it may lack some options of ``multiple_of``.
        """
        multiple = " and ".join(
            flag(divisor) if isinstance(divisor, str) else str(divisor)
            for divisor in self.divisors
            if not isinstance(divisor, str) or hasattr(config, divisor)
        )
        parts = (
            f"one of {', '.join(self.choices)}" if self.choices else "",
            self.range,
            f"a multiple of {multiple}" if multiple else "",
        )
        return ", ".join(filter(None, parts))

    def remedy(self, value: float | str, cfg) -> str | None:
        """The remedy for a value outside of the bounds, or None if it is inside."""
        if isinstance(value, str):
            allowed = not self.choices or value in self.choices
            return None if allowed else f"choose from {', '.join(self.choices)}"
        finite = value == value and abs(value) != math.inf
        if not finite or not all(holds(value, limit) for _, limit, holds in self.limits):
            return f"give {self.range or 'a finite number'}"
        if isinstance(value, int) and abs(value) > LARGEST:
            return f"give at most {LARGEST:,}"
        for divisor in self.divisors:
            number = getattr(cfg, divisor, None) if isinstance(divisor, str) else divisor
            if number and value % number:
                named = f"{flag(divisor)} {number}" if isinstance(divisor, str) else number
                return f"give a multiple of {named}"
        return None


def option(default, help: str, *, argparse_alias: str | None = None, **bounds):
    """Declare a config field that is also an option of the command line.

    Args:
        default: a value, or an interpolation such as ``II("model.encoder_embed_dim")``, which
            omegaconf resolves when the option is read.
        argparse_alias: another name of the option.
        bounds: see :class:`Bounds`.
    """
    metadata = {"help": help, "bounds": Bounds(**bounds) if bounds else None}
    if argparse_alias is not None:
        metadata["argparse_alias"] = argparse_alias
    return field(default=default, metadata=metadata)


WIDTH, COUNT = Bounds(at_least=1, at_most=65_536), Bounds(at_least=1, at_most=10_000)
POSITIVE, FRACTION = Bounds(at_least=1), Bounds(at_least=0, at_most=1)
BELOW_ONE = Bounds(at_least=0, below=1)
# Bounds of options that declare none, such as fairseq's own.
COMMON_BOUNDS = {
    "activation_dropout": BELOW_ONE,
    "adaptive_softmax_dropout": BELOW_ONE,
    "attention_dropout": BELOW_ONE,
    "attention_weights_dropout": BELOW_ONE,
    "dropout": BELOW_ONE,
    "embedding_dropout": BELOW_ONE,
    "label_smoothing": BELOW_ONE,
    "pooler_dropout": BELOW_ONE,
    "relu_dropout": BELOW_ONE,
    "encoder_layerdrop": FRACTION,
    "decoder_layerdrop": FRACTION,
    "quant_noise_pq": FRACTION,
    "quant_noise_scalar": FRACTION,
    "encoder_attention_heads": POSITIVE,
    "decoder_attention_heads": POSITIVE,
    "max_positions": POSITIVE,
    "num_classes": POSITIVE,
    "init_token": Bounds(at_least=0),
    "encoder_embed_dim": WIDTH,
    "encoder_ffn_embed_dim": WIDTH,
    "decoder_embed_dim": WIDTH,
    "decoder_ffn_embed_dim": WIDTH,
    "decoder_input_dim": WIDTH,
    "decoder_output_dim": WIDTH,
    "encoder_layers": COUNT,
    "encoder_blocks": COUNT,
    "encoder_depth": COUNT,
    "encoder_experts": COUNT,
    "decoder_layers": COUNT,
    "decoder_blocks": COUNT,
    "decoder_depth": COUNT,
    "decoder_experts": COUNT,
}


def validate(cfg, config: type, unsupported: Mapping[str, str] | None = None) -> None:
    """Check the options of a config against their bounds.

    Models (in :meth:`.BaseModel.check_config`), tasks and criterions call it before they are built.
    In every model, the number of heads must divide the width.

    Args:
        cfg: the values, by name.
        config: the dataclass that declares them.
        unsupported: options of a base class that must be left out, and why.

    Raises:
        ValueError: an option is out of bounds; the message names the first such option, its value
            and the remedy.
    """
    for name, reason in (unsupported or {}).items():
        if getattr(cfg, name, None):
            raise ValueError(f"{flag(name)} {getattr(cfg, name)}: {reason}; leave the option out")
    for side in SIDES:
        sizes = ("embed_dim", "attention_heads")
        width, heads = (getattr(cfg, f"{side}_{size}", None) for size in sizes)
        if width and heads and width % heads:
            raise ValueError(
                f"--{side}-attention-heads {heads}: give a divisor of --{side}-embed-dim {width}"
            )
    for item in fields(config):
        value = getattr(cfg, item.name, None)
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            remedy = bounds_of(item).remedy(value, cfg)
            if remedy:
                raise ValueError(f"{flag(item.name)} {value}: {remedy}")


def bounds_of(item) -> Bounds:
    """The bounds that a field declares, or else the common bounds for its name."""
    return item.metadata.get("bounds") or COMMON_BOUNDS.get(item.name, Bounds())


def check_choice(parser: ArgumentParser, action: Action, value: str) -> None:
    """argparse's check of a choice, a parser's ``_check_value``; it suggests a similar choice."""
    choices = [*map(str, action.choices or ())]
    if str(value) not in choices and (meant := did_you_mean(str(value), choices)):
        raise ArgumentError(action, f"{value}: {meant}")
    ArgumentParser._check_value(parser, action, value)


def add_choices(parser: ArgumentParser, config: type) -> None:
    """Add the choices of a config's options to a command line and its help."""
    for item in fields(config):
        choices = bounds_of(item).choices
        if choices and (action := parser._option_string_actions.get(flag(item.name))):
            action.choices = choices


def flag(name: str) -> str:
    """The option of the command line for a field of a config, such as ``--encoder-layers``."""
    return f"--{hyphenate(name)}"


def hyphenate(name: str) -> str:
    """The name of a config's field on the command line, without ``--``."""
    return name.replace("_", "-")


def underscore(name: str) -> str:
    """The name in a config of an option of the command line, given without ``--``."""
    return name.replace("-", "_")
