"""Options of models, criterions, tasks and commands: declared once, with their bounds."""

import math
import operator
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from functools import wraps
from importlib.util import find_spec
from inspect import isclass
from typing import Optional

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.models.transformer import TransformerConfig
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from hydra.core.config_store import ConfigStore
from omegaconf import II


@dataclass(frozen=True)
class Bounds:
    """The values that an option may take; a number that is not finite is outside of all bounds.

    Attributes:
        at_least, above, at_most, below: limits.
        multiple_of: numbers, or names of options, that divide the value.
    """

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    multiple_of: tuple[int | str, ...] = ()

    def remedy(self, value: float, cfg) -> str | None:
        """What to give instead of a value that is outside; None if it is inside."""
        limits = {
            "at least": (self.at_least, operator.ge),
            "above": (self.above, operator.gt),
            "at most": (self.at_most, operator.le),
            "below": (self.below, operator.lt),
        }
        limits = {name: pair for name, pair in limits.items() if pair[0] is not None}
        if abs(value) == math.inf or not all(
            inside(value, limit) for limit, inside in limits.values()
        ):
            allowed = " and ".join(f"{name} {limit:g}" for name, (limit, _) in limits.items())
            return f"give {allowed or 'a finite number'}"
        for divisor in self.multiple_of:
            number = cfg[divisor] if isinstance(divisor, str) else divisor
            if number and value % number:
                named = f"{flag(divisor)} {number}" if isinstance(divisor, str) else number
                return f"give a multiple of {named}"
        return None


def option(
    default,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    multiple_of: int | str | tuple[int | str, ...] = (),
    **metadata,
):
    """The field of a config for an option of the command line.

    Args:
        default: a value, or an interpolation such as ``II("model.encoder_embed_dim")``.
        at_least, above, at_most, below, multiple_of: see :class:`Bounds`.
        metadata: what fairseq reads besides, such as ``argparse_alias``.
    """
    divisors = multiple_of if isinstance(multiple_of, tuple) else (multiple_of,)
    bounds = Bounds(at_least, above, at_most, below, divisors)
    if bounds != Bounds():
        metadata["bounds"] = bounds
    return field(default=default, metadata={"help": help, **metadata})


# Of options that declare none, such as fairseq's own, by the end of the name.
COMMON_BOUNDS = {
    "embed_dim": Bounds(at_least=1),
    "attention_heads": Bounds(at_least=1),
    "encoder_layers": Bounds(at_least=1),
    "decoder_layers": Bounds(at_least=1),
    "dropout": Bounds(at_least=0, below=1),
    "layerdrop": Bounds(at_least=0, at_most=1),
    "max_positions": Bounds(at_least=1),
}


def validate(cfg, config: type, unsupported: Mapping[str, str] | None = None) -> None:
    """Check the options of a config against their bounds.

    The heads of a side divide its width, whatever model it is of.

    Args:
        cfg: the values, by name.
        config: the dataclass that declares them.
        unsupported: options of a base class that must be left out, and why.

    Raises:
        ValueError: it names the first option that is outside, its value and the remedy.
    """
    for name, reason in (unsupported or {}).items():
        if cfg[name]:
            raise ValueError(f"{flag(name)} {cfg[name]}: {reason}; leave the option out")
    for side in ("encoder", "decoder"):
        width, heads = (cfg.get(f"{side}_{size}") for size in ("embed_dim", "attention_heads"))
        if width and heads and width % heads:
            raise ValueError(
                f"--{side}-attention-heads {heads}: give a divisor of --{side}-embed-dim {width}"
            )
    for item in fields(config):
        value = cfg.get(item.name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            remedy = bounds_of(item).remedy(value, cfg)
            if remedy:
                raise ValueError(f"{flag(item.name)} {value}: {remedy}")


def bounds_of(item) -> Bounds:
    """The bounds of a field: those that it declares, or those of its name."""
    declared = item.metadata.get("bounds")
    ends = (bounds for end, bounds in COMMON_BOUNDS.items() if item.name.endswith(end))
    return declared or next(ends, Bounds())


def side(cfg, name: str) -> Namespace:
    """The options of the ``encoder`` or ``decoder`` without their prefix, such as ``embed_dim``."""
    prefix = f"{name}_"
    return Namespace(**{k[len(prefix) :]: v for k, v in cfg.items() if k.startswith(prefix)})


def flat_fields(config: type, prefix: str = "") -> list:
    """The fields of a config, and of those nested in it with their place as prefix of the name.

    fairseq's command line knows nested options by such names, but does not fill nested configs.
    """
    flat = []
    for item in fields(config):
        if isclass(item.type) and issubclass(item.type, FairseqDataclass):
            flat += flat_fields(item.type, f"{prefix}{item.name}_")
        elif not item.name.startswith("_"):
            default = item.default
            if isinstance(default, str):  # an interpolation may name a nested field
                default = default.replace("model.decoder.", "model.decoder_")
            copy = field(default=default, metadata=item.metadata)
            pruned = item.name == "layers_to_keep"  # fairseq splits 0,2,4 where it makes the layers
            flat.append((prefix + item.name, Optional[str] if pruned else item.type, copy))
    return flat


ENCODER_OPTIONS = (
    "encoder_",
    "quant_noise_",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "layernorm_embedding",
    "no_token_positional_embeddings",
    "checkpoint_activations",
    "offload_activations",
    "min_params_to_wrap",
)

EncoderConfig = make_dataclass(
    "EncoderConfig",
    [
        item
        for item in flat_fields(TransformerConfig)
        if item[0].startswith(ENCODER_OPTIONS) and item[0] != "encoder_embed_path"
    ],
    bases=(FairseqDataclass,),
)


def embedding_dropout():
    """The field of the option ``--embedding-dropout``; by default fairseq drops as elsewhere."""
    return option(II("model.dropout"), "dropout probability of embeddings")


def drop_embeddings(cfg, *stacks) -> None:
    """Give fairseq's encoders and decoders the dropout of embeddings that an option asks for."""
    for stack in stacks:
        stack.dropout_module.p = cfg.embedding_dropout


class DataclassOptions:
    """Mixin of a model that has a dataclass, while its base class in fairseq has other options.

    A switch that is on by default keeps its meaning on the command line and gets a form with
    ``--no-`` that turns it off; fairseq would make the switch itself turn it off.

    Raises:
        ValueError: a class derived from such a model is registered without a dataclass.
    """

    @classmethod
    def add_args(cls, parser):
        config = vars(cls).get("__dataclass")
        if config is None:
            raise ValueError(
                f"{cls.__name__} is registered without its options; write "
                "@register_model(NAME, dataclass=CONFIG), with that of its base class if it has "
                "no more"
            )
        for item in fields(config):
            if item.default is True:
                parser.add_argument(
                    flag(item.name),
                    action=BooleanOptionalAction,
                    default=SUPPRESS,
                    help=item.metadata["help"],
                )
        gen_parser_from_dataclass(parser, config(), delete_default=True)


def register_preset_config(arch: str, model: str) -> None:
    """Make the defaults of a preset those of a config of its own, by which fairseq finds them.

    fairseq applies a preset to a command line alone: of ``model: {_name: PRESET}`` Hydra would make
    the model that the preset is of. The config also gives a checkpoint the options that are
    younger, and drops those that have gone.

    Args:
        arch: name of the preset, which sets options to constants.
        model: that it is registered for, with a dataclass.
    """
    base, preset = MODEL_DATACLASS_REGISTRY[model], Namespace()
    ARCH_CONFIG_REGISTRY[arch](preset)
    own = [
        (item.name, item.type, field(default=vars(preset)[item.name], metadata=item.metadata))
        for item in fields(base)
        if item.name in preset
    ]
    config = make_dataclass(f"{base.__name__}_{arch}", own, bases=(base,))
    MODEL_DATACLASS_REGISTRY[arch] = config
    ARCH_MODEL_NAME_REGISTRY[arch] = arch
    node = config()
    node._name = arch
    ConfigStore.instance().store(name=arch, group="model", node=node, provider="fairseq")


def check_head(arch: str, args: Namespace) -> None:
    """Refuse a command line whose model or criterion has not the head that the task trains.

    Raises:
        ValueError: it names the option, its value and the remedy.
    """
    head = "classification_head_name"
    task, criterion = getattr(args, "task", None), getattr(args, "criterion", None)
    if head not in getattr(TASK_DATACLASS_REGISTRY.get(task), "__dataclass_fields__", ()):
        return
    if not hasattr(ARCH_MODEL_REGISTRY[arch], "register_classification_head"):
        raise ValueError(f"--task {task}: {arch} is no classifier; odeformers list names those")
    known = CRITERION_DATACLASS_REGISTRY.get(criterion)
    if known is not None and head not in known.__dataclass_fields__:
        raise ValueError(
            f"--criterion {criterion}: --task {task} trains a classification head, of which this "
            "criterion knows nothing; use --criterion sequence_classification, or "
            "sentence_prediction"
        )


def check_command_line(args: Namespace) -> None:
    """Check a command line that fairseq has read by :func:`check_head`, and free it of a TPU.

    fairseq takes ``--bf16`` for ``--tpu``; with ``--cpu``, or without torch_xla, there is none.
    """
    if hasattr(args, "arch"):
        check_head(args.arch, args)
    if getattr(args, "bf16", False) and (getattr(args, "cpu", False) or not find_spec("torch_xla")):
        args.tpu = False


def checking(parse):
    """fairseq's reader of command lines, with :func:`check_command_line` of what it reads."""

    @wraps(parse)
    def parse_and_check(*args, **kwargs):
        parsed = parse(*args, **kwargs)
        check_command_line(parsed[0] if isinstance(parsed, tuple) else parsed)  # parse_known
        return parsed

    return parse_and_check


NO_LAYER_NORM = "the layers of this model have no LayerNorm"
NO_QUANT_NOISE = "noise would not reach orthogonal matrices, which are made anew in each pass"


def refuse(cfg, reason: str, *names: str) -> None:
    """Raise a ValueError if one of some options is given.

    Args:
        reason: why it has no effect, or not the one that its name promises.
        names: of fields of the config.
    """
    for name in names:
        if cfg[name]:
            raise ValueError(f"{flag(name)} {cfg[name]}: {reason}; leave the option out")


def at_least_one(cfg, *names: str) -> None:
    """Raise a ValueError if one of some options is smaller."""
    for name in names:
        if cfg[name] < 1:
            raise ValueError(f"{flag(name)} {cfg[name]}: give at least 1")


def check_layers(cfg, *sides: str) -> None:
    """Raise a ValueError if a size is below 1, heads do not divide a width, or a dropout is 1.

    Args:
        sides: those that the model has, ``encoder`` and ``decoder``.
    """
    for name in sides:
        sizes = ("embed_dim", "attention_heads", "ffn_embed_dim", "layers")
        options = (f"{name}_{size}" for size in sizes)
        at_least_one(cfg, *(each for each in options if each in cfg))  # blocks are no layers
        width, heads = side(cfg, name).embed_dim, side(cfg, name).attention_heads
        if width % heads:
            raise ValueError(
                f"--{name}-attention-heads {heads} does not divide --{name}-embed-dim {width}; "
                "give a number of heads that does"
            )
    for name in cfg:
        if name.endswith("dropout") and not 0 <= cfg[name] < 1:
            raise ValueError(f"{flag(name)} {cfg[name]}: give 0 or more, below 1")


def flag(name: str) -> str:
    """The option of the command line for a field of a config, such as ``--encoder-layers``."""
    return "--" + name.replace("_", "-")


def positive_int(text: str) -> int:
    """The ``type`` of an argument that is 1 or more."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def add_user_dir(parser: ArgumentParser) -> None:
    """Add the option whose folders ``inference.loading.import_plugins`` imports."""
    parser.add_argument(
        "--user-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="folder of a plugin of your own that has the model or task; may be given again",
    )
