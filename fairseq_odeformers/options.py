"""Options of models, criterions and tasks, declared with their bounds."""

import math
import operator
from argparse import Action, ArgumentError, ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from .errors import did_you_mean

MAX_SIZE = 2**31 - 1  # the largest whole number that torch accepts as a size
SIDES = ("encoder", "decoder")  # prefixes of option names


@dataclass(frozen=True)
class Bounds:
    """Bounds of an option: the values that it may take; :func:`validate` checks them.

    Infinite values, NaN and integers above :data:`MAX_SIZE` are out of bounds for every option.

    Attributes:
        at_least, above, at_most, below: limits of a number, or None.
        multiple_of: a number that must divide the value, or a tuple of numbers and of names of
            options with such numbers.
        choices: the allowed values of an option of type ``str``; all if empty.
    """

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    multiple_of: int | tuple[int | str, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def limits(self) -> list[tuple[str, float, Callable[[float, float], bool]]]:
        """The limits that are set: name, limit, and the comparison that allowed values pass."""
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
        """Describe the allowed values, such as ``one of euler, midpoint, rk4``; "" if all are.

        Args:
            config: dataclass with the option; it may lack some options in ``multiple_of``.
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
        """Return the remedy for a value that is out of bounds, or None if it is allowed."""
        if isinstance(value, str):
            allowed = not self.choices or value in self.choices
            return None if allowed else f"choose from {', '.join(self.choices)}"
        finite = value == value and abs(value) != math.inf
        if not finite or not all(holds(value, limit) for _, limit, holds in self.limits):
            return f"give {self.range or 'a finite number'}"
        if isinstance(value, int) and abs(value) > MAX_SIZE:
            return f"give at most {MAX_SIZE:,}"
        for divisor in self.divisors:
            number = getattr(cfg, divisor, None) if isinstance(divisor, str) else divisor
            if number and value % number:
                unit = f"{flag(divisor)} {number}" if isinstance(divisor, str) else number
                return f"give a multiple of {unit}"
        return None


def option(default, help: str, *, argparse_alias: str | None = None, **bounds):
    """Declare a config field that is also an option of the command line.

    Args:
        default: a value, or an interpolation such as ``II("model.encoder_embed_dim")`` that
            omegaconf resolves when the option is read.
        help: description of the option for ``--help``.
        argparse_alias: alternative name of the option on the command line.
        bounds: arguments of :class:`Bounds`.

    For example:

        encoder_steps: int = option(6, "number of encoder steps", at_least=1)
    """
    metadata = {"help": help, "bounds": Bounds(**bounds) if bounds else None}
    if argparse_alias is not None:
        metadata["argparse_alias"] = argparse_alias
    return field(default=default, metadata=metadata)


WIDTH, COUNT = Bounds(at_least=1, at_most=65_536), Bounds(at_least=1, at_most=10_000)
POSITIVE, FRACTION = Bounds(at_least=1), Bounds(at_least=0, at_most=1)
BELOW_ONE = Bounds(at_least=0, below=1)
# Bounds of options that are declared without any, such as fairseq's.
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
        cfg: object with the values as attributes.
        config: dataclass that declares the options.
        unsupported: options of a base class that must not be set, with the reason for each.

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
    """Return the bounds that a field declares, or else the common bounds for its name."""
    return item.metadata.get("bounds") or COMMON_BOUNDS.get(item.name, Bounds())


def check_choice(parser: ArgumentParser, action: Action, value: str) -> None:
    """Check a choice as argparse's ``_check_value`` does, but suggest a similar choice."""
    choices = [*map(str, action.choices or ())]
    if str(value) not in choices and (suggestion := did_you_mean(str(value), choices)):
        raise ArgumentError(action, f"{value}: {suggestion}")
    ArgumentParser._check_value(parser, action, value)


def add_choices(parser: ArgumentParser, config: type) -> None:
    """Add the choices of a config's options to a command line and its help."""
    for item in fields(config):
        choices = bounds_of(item).choices
        if choices and (action := parser._option_string_actions.get(flag(item.name))):
            action.choices = choices


def flag(name: str) -> str:
    """Return the option on the command line for a config field, such as ``--encoder-layers``."""
    return f"--{hyphenate(name)}"


def hyphenate(name: str) -> str:
    """Return the name on the command line, without ``--``, of a config field."""
    return name.replace("_", "-")


def underscore(name: str) -> str:
    """Return the config field of an option on the command line, given without ``--``."""
    return name.replace("-", "_")
