"""Runge-Kutta blocks: fairseq's layers, each evaluated several times to pass it once.

``tableaus`` has the numbers a and b of the methods, ``coefficients`` the ways to sum the slopes.
"""

from collections.abc import Callable

from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from .coefficients import weighted_sum
from .tableaus import TABLEAUS
from .transformer_layer import EncoderLayer, Output, RepeatedDecoderLayer

FIELDS = ("textbook", "released")


class RungeKuttaLayer(nn.Module):
    r"""Mixin that makes a Runge-Kutta block of fairseq's Transformer layer.

    .. math::
        y' = y + \sum_i b_i F_i, \quad F_i = F\Big(y + \sum_{j<i} a_{ij} F_j\Big)

    F(y) is layer(y) - y, the equations', with ``--rk-field textbook``, and layer(y), as in the
    authors' code, with ``released``.

    Args:
        cfg: fairseq's config, which has the options of the method, too.

    Attributes:
        coefficients: the module that sums the slopes, which all blocks of a stack share. It is a
            child of the stack, not of its blocks, so that its parameters have one name.
    """

    embed_dim: int  # of fairseq's layer
    coefficients: nn.Module

    def __init__(self, cfg: TransformerConfig, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        self.matrix = TABLEAUS[cfg.rk_order].matrix
        self.released = cfg.rk_field == "released"

    def share(self, coefficients: nn.Module) -> None:
        """Take the coefficients of the stack, which stays their owner."""
        self.__dict__["coefficients"] = coefficients

    def step(self, evaluate: Callable[[int, Tensor], Tensor], y: Tensor) -> Tensor:
        """y' for a state y (T, B, C).

        Args:
            evaluate: fairseq's layer, of the number of the evaluation and a state.
        """
        return y + self.coefficients(self.slopes(evaluate, y, y))

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

    def forward(self, x: Tensor, *args, **kwargs) -> Tensor:
        """As fairseq's layer, from and to (T, B, C)."""
        layer = super().forward
        return self.step(lambda _, y: layer(y, *args, **kwargs), x)


class RungeKuttaDecoderLayer(RungeKuttaLayer, RepeatedDecoderLayer):
    """Runge-Kutta block of a decoder without an encoder: causal self-attention and FFN."""

    def forward(self, x: Tensor, *args, **kwargs) -> Output:
        """As fairseq's layer, from and to (T, B, C); without attention weights."""

        def evaluate(index: int, y: Tensor) -> Tensor:
            return self.evaluate(index, y, *args, **kwargs)[0]

        return self.step(evaluate, x), None, None
