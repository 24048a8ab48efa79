"""Runge-Kutta blocks: fairseq's layers, each evaluated several times to pass it once.

``tableaus`` has the numbers a and b of the methods, ``coefficients`` the ways to sum the slopes.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from fairseq_odeformers.modules.coefficients import weighted_sum
from fairseq_odeformers.modules.tableaus import TABLEAUS
from fairseq_odeformers.modules.transformer_layer import EncoderLayer, Output, RepeatedDecoderLayer

FIELDS = ("textbook", "released")


class RungeKuttaLayer(nn.Module):
    r"""Mixin that makes a Runge-Kutta block of fairseq's Transformer layer.

    .. math::
        y' = y + \sum_i b_i F_i, \quad F_i = F\Big(y + \sum_{j<i} a_{ij} F_j\Big)

    F(y) is layer(y) - y, the equations', with ``--rk-field textbook``, and layer(y), as in the
    authors' code, with ``released``.

    Args:
        cfg: fairseq's config, which has the options of the method, too.
    """

    embed_dim: int  # of fairseq's layer

    def __init__(self, cfg: TransformerConfig, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        self.matrix = TABLEAUS[cfg.rk_order].matrix
        self.released = cfg.rk_field == "released"

    def step(
        self, evaluate: Callable[[int, Tensor], Tensor], y: Tensor, coefficients: nn.Module
    ) -> Tensor:
        """y' for a state y (T, B, C).

        Args:
            evaluate: fairseq's layer, of the number of the evaluation and a state.
            coefficients: sums the slopes.
        """
        return y + coefficients(self.slopes(evaluate, y, y))

    def slopes(
        self, evaluate: Callable[[int, Tensor], Tensor], y: Tensor, base: Tensor
    ) -> list[Tensor]:
        """F_1, ..., F_s (T, B, C): the first at y, the others from *base* on."""
        slopes = [self.slope(evaluate, 0, y)]
        for index, row in enumerate(self.matrix, start=1):
            slopes.append(self.slope(evaluate, index, base + weighted_sum(row, slopes)))
        return slopes

    def slope(self, evaluate: Callable[[int, Tensor], Tensor], index: int, x: Tensor) -> Tensor:
        """F(x) (T, B, C), by the evaluation of this number."""
        out = evaluate(index, x)
        return out if self.released else out - x


class RungeKuttaEncoderLayer(RungeKuttaLayer, EncoderLayer):
    """Runge-Kutta block of an encoder."""

    def forward(self, x: Tensor, *args, coefficients: nn.Module, **kwargs) -> Tensor:
        """As fairseq's layer, from and to (T, B, C), with the coefficients of the stack."""
        layer = super().forward
        return self.step(lambda _, y: layer(y, *args, **kwargs), x, coefficients)


class RungeKuttaDecoderLayer(RungeKuttaLayer, RepeatedDecoderLayer):
    """Runge-Kutta block of a decoder without an encoder: causal self-attention and FFN."""

    def forward(self, x: Tensor, *args, coefficients: nn.Module, **kwargs) -> Output:
        """As fairseq's layer, from and to (T, B, C); without attention weights."""

        def evaluate(index: int, y: Tensor) -> Tensor:
            return self.evaluate(index, y, *args, **kwargs)[0]

        return self.step(evaluate, x, coefficients), None, None


def hand_over(owner: nn.Module, names: Sequence[str], layers: Iterable[nn.Module]) -> None:
    """Have layers get children of *owner*, as arguments of their names, whenever they are called.

    So the layers of a stack share a module that is a child of the stack, and its parameters have
    one name. fairseq's loop over the layers hands nothing of the stack to them.
    """
    for layer in layers:
        layer.register_forward_pre_hook(partial(with_children, owner, names), with_kwargs=True)


def with_children(
    owner: nn.Module, names: Sequence[str], layer: nn.Module, args: tuple, kwargs: dict
) -> tuple[tuple, dict]:
    """The arguments of a call of a layer, with children of *owner*."""
    return args, {**kwargs, **{name: getattr(owner, name) for name in names}}
