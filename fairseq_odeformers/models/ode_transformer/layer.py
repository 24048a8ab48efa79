"""Runge-Kutta blocks over fairseq's encoder and decoder layers."""

from collections.abc import Callable

from torch import Tensor, nn

from fairseq_odeformers.models.common.runge_kutta import RungeKuttaLayer
from fairseq_odeformers.modules.transformer_layer import EncoderLayer, Output, RepeatedDecoderLayer


class RungeKuttaBlock(RungeKuttaLayer):
    r"""Mixin for fairseq's layer: one step of a Runge-Kutta method.

    .. math:: y' = y + \sum_i b_i F_i, \quad F_i = F\Big(y + \sum_{j<i} a_{ij} F_j\Big)

    The base class computes the F_i with the tableau's a; the stack provides b.
    """

    def step(
        self, evaluate: Callable[[int, Tensor], Tensor], y: Tensor, coefficients: nn.Module
    ) -> Tensor:
        """Map a state y to y' (T, B, C).

        Args:
            evaluate: fairseq's layer, as a function of the number of the evaluation and of a state.
            y: state (T, B, C).
            coefficients: module that sums the slopes with the weights b.
        """
        return y + coefficients(self.slopes(evaluate, y))


class RungeKuttaEncoderLayer(RungeKuttaBlock, EncoderLayer):
    """Runge-Kutta block of an encoder."""

    def forward(self, x: Tensor, *args, coefficients: nn.Module, **kwargs) -> Tensor:
        """Map (T, B, C) to (T, B, C) as fairseq's layer does, with the stack's coefficients."""
        layer = super().forward
        return self.step(lambda _, y: layer(y, *args, **kwargs), x, coefficients)


class RungeKuttaDecoderLayer(RungeKuttaBlock, RepeatedDecoderLayer):
    """Runge-Kutta block of a decoder without an encoder: causal self-attention and FFN."""

    def forward(self, x: Tensor, *args, coefficients: nn.Module, **kwargs) -> Output:
        """Map (T, B, C) to (T, B, C) as fairseq's layer does, but without attention weights."""

        def evaluate(index: int, y: Tensor) -> Tensor:
            return self.evaluate(index, y, *args, **kwargs)[0]

        return self.step(evaluate, x, coefficients), None, None
