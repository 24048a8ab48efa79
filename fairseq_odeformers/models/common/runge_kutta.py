"""fairseq's Transformer over Runge-Kutta layers, each evaluated several times per pass.

In ``modules``, ``tableaus`` lists the coefficients a and b of the methods, and ``coefficients``
sums the slopes. A paper adds its layers, the modules that they share, and its options.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from fairseq_odeformers.modules.coefficients import weighted_sum
from fairseq_odeformers.modules.layer_history import LayerHistory
from fairseq_odeformers.modules.tableaus import TABLEAUS
from fairseq_odeformers.options import option

from .depths import check_joined, join_layers
from .language_model import LanguageModelConfig
from .prenorm_transformer import PreNormTransformerConfig
from .transformer import Config, Spec
from .transformer_classifier import TransformerClassifierConfig

FIELDS = ("textbook", "released")


@dataclass(frozen=True)
class RungeKuttaSpec(Spec):
    """The method of a layer; fields are named after their options."""

    embed_dim: int  # C
    rk_order: int = 2
    rk_field: str = "textbook"


# --- layers ----------------------------------------------------------------


class RungeKuttaLayer(nn.Module):
    r"""Mixin for fairseq's Transformer layer: the slopes of a Runge-Kutta method.

    .. math:: F_i = F\Big(y + \sum_{j<i} a_{ij} F_j\Big)

    With ``--rk-field textbook``, F(y) is layer(y) - y, as in the equations. With ``released``, it
    is layer(y), as in the authors' code.

    Args:
        cfg: fairseq's config.
        spec: the order s of the method and the kind of F.
    """

    embed_dim: int  # set by fairseq's layer

    def __init__(self, cfg: TransformerConfig, spec: RungeKuttaSpec, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        self.matrix = TABLEAUS[spec.rk_order].matrix
        self.released = spec.rk_field == "released"

    def slopes(
        self,
        evaluate: Callable[[int, Tensor], Tensor],
        y: Tensor,
        base: Tensor | None = None,
        norms: Sequence[nn.Module] | nn.ModuleList = (),
    ) -> list[Tensor]:
        """Return the slopes F_1 at y, and F_2, ..., F_s at steps from *base*, each (T, B, C).

        Args:
            evaluate: function that maps the index of the evaluation, 0, 1, ..., and its input
                (T, B, C) to the output of the layer (T, B, C).
            y: state (T, B, C).
            base: state (T, B, C) to which the steps are added; by default y, as in the equation.
            norms: one module per slope, applied before the next stage uses it.
        """
        base = y if base is None else base
        slopes: list[Tensor] = []
        for index, row in enumerate([(), *self.matrix]):
            x = base + weighted_sum(row, slopes) if slopes else y
            slope = self.slope(evaluate, index, x)
            slopes.append(norms[index](slope) if norms else slope)
        return slopes

    def slope(self, evaluate: Callable[[int, Tensor], Tensor], index: int, x: Tensor) -> Tensor:
        """Return F(x) (T, B, C) by the evaluation with this index."""
        out = evaluate(index, x)
        return out if self.released else out - x


# --- stacks ----------------------------------------------------------------


class RungeKuttaStack(nn.Module):
    """Mixin for an encoder or decoder with modules that all of its layers share.

    A subclass builds these modules in :meth:`share`, which the constructor calls after fairseq has
    built the layers.
    """

    spec: Any

    def __init__(self, cfg: Config, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        # Iteration over self.layers would skip the layers that LayerDrop drops at random.
        self.share([module for module in self.modules() if isinstance(module, RungeKuttaLayer)])

    def share(self, layers: list[RungeKuttaLayer]) -> None:
        """Build the modules that the layers share, and pass them with :func:`hand_over`."""
        raise NotImplementedError


def join_history(stack: Any, history_class: type[LayerHistory] = LayerHistory) -> None:
    """Join the layers of an encoder or decoder into one block, with a history of the layers."""
    join_layers(stack, history_class(stack.layers, stack.layers[0].embed_dim))


def hand_over(owner: nn.Module, names: Sequence[str], layers: Iterable[nn.Module]) -> None:
    """Pass children of *owner* to layers in each call, as arguments named after the children.

    This way, the layers of a stack share modules of the stack, and each shared parameter has one
    name. fairseq's loop over the layers could not pass them.

    Args:
        owner: module that owns the children, such as an encoder.
        names: names of the children, and of the arguments of the layers' ``forward``.
        layers: layers that receive the children.
    """
    for layer in layers:
        layer.register_forward_pre_hook(partial(with_children, owner, names), with_kwargs=True)


def with_children(
    owner: nn.Module, names: Sequence[str], layer: nn.Module, args: tuple, kwargs: dict
) -> tuple[tuple, dict]:
    """Add children of *owner* to the arguments of a layer's call; this is a forward pre-hook."""
    return args, {**kwargs, **{name: getattr(owner, name) for name in names}}


# --- models ----------------------------------------------------------------


@dataclass
class FieldConfig(FairseqDataclass):
    """The option of all models over Runge-Kutta layers."""

    rk_field: str = option(
        "textbook",
        "slope F(y) of a layer: layer(y) - y (textbook), or layer(y) as in the authors' code "
        "(released)",
        choices=FIELDS,
    )


@dataclass
class RungeKuttaConfig(PreNormTransformerConfig):
    """Options of fairseq's Transformer; the defaults have the size of the papers' base models."""

    attention_dropout: float = option(0.1, "dropout probability of attention weights")
    activation_dropout: float = option(
        0.1,
        "dropout probability after the activation function of FFNs",
        argparse_alias="--relu-dropout",
    )


@dataclass
class RungeKuttaLanguageModelConfig(LanguageModelConfig):
    """Options of fairseq's Transformer LM, with LayerNorm before each sub-layer."""

    attention_dropout: float = option(0.1, "dropout probability of attention weights")
    activation_dropout: float = option(
        0.1, "dropout probability after the activation function of FFNs"
    )
    decoder_normalize_before: bool = option(True, "apply LayerNorm before each decoder sub-layer")


@dataclass
class RungeKuttaClassifierConfig(TransformerClassifierConfig):
    """Options of fairseq's encoder; the defaults have the size of ``transformer_classifier``."""

    encoder_normalize_before: bool = option(True, "apply LayerNorm before each sub-layer")


def check_history(cfg: Config) -> None:
    """Check that a history of layers supports the options.

    Raises:
        ValueError: an option is not supported; the message names it.
    """
    check_joined(
        cfg,
        each_layer="a history has a weight for each layer",
        pre_norm="a history normalises the outputs of its layers",
    )
