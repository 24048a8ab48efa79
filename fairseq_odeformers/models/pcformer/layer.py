"""Layers that predict and correct, with s + 1 evaluations of fairseq's layer per pass."""

from collections.abc import Callable, Sequence
from typing import Any

from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm
from torch import Tensor, nn

from fairseq_odeformers.models.common.runge_kutta import RungeKuttaLayer
from fairseq_odeformers.modules.coefficients import weighted_sum
from fairseq_odeformers.modules.layer_history import Combination, LayerHistory
from fairseq_odeformers.modules.transformer_layer import EncoderLayer, Output, RepeatedDecoderLayer

from .spec import LayerSpec


class StageNorms(nn.Module):
    """Optional LayerNorms of each slope and, with ``--rk-norm``, of the residual term.

    Attributes:
        early: whether the next stage reads the normalised slope (``--rk-norm-slopes``).
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.early = spec.rk_norm_slopes
        normalised = [spec.rk_norm] + [spec.rk_norm or self.early] * spec.rk_order
        norms = [LayerNorm(spec.embed_dim) if norm else nn.Identity() for norm in normalised]
        self.residual, self.stages = norms[0], nn.ModuleList(norms[1:])


class PredictorCorrectorLayer(RungeKuttaLayer):
    """Mixin that uses fairseq's Transformer layer as F in the predictor and the corrector."""

    def __init__(self, cfg: TransformerConfig, spec: LayerSpec, *args, **kwargs):
        super().__init__(cfg, spec, *args, **kwargs)
        self.prediction_layer_norm = LayerNorm(self.embed_dim)

    def correct(
        self,
        evaluate: Callable[[int, Tensor], Tensor],
        y: Tensor,
        past: Tensor,
        weight: Tensor,
        norms: StageNorms,
        coefficients: nn.Module,
    ) -> Tensor:
        """Return F(z) (T, B, C), where z = past + w_kk LN_k(P).

        Args:
            evaluate: fairseq's layer, as a function of the number of the evaluation and of a state.
            y: y_k (T, B, C).
            past: sum of w_ki h_i over i < k (T, B, C).
            weight: w_kk (1).
            norms: the LayerNorms that all layers of a stack share.
            coefficients: module that sums the slopes.
        """
        base = norms.residual(y)
        if norms.early:
            slopes = self.slopes(evaluate, y, base, norms.stages)
        else:
            slopes = [n(f) for n, f in zip(norms.stages, self.slopes(evaluate, y, base))]
        prediction = base + coefficients(slopes)
        z = past + weight * self.prediction_layer_norm(prediction)
        return self.slope(evaluate, len(slopes), z)


class PredictorCorrectorEncoderLayer(PredictorCorrectorLayer, EncoderLayer):
    """Encoder layer: each evaluation of F is one pass of fairseq's self-attention and FFN."""

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None, **shared: Any) -> Tensor:
        """Map y_k (T, B, C) to F(z) (T, B, C); for the other arguments, see :meth:`correct`."""
        layer = super().forward
        return self.correct(lambda _, y: layer(y, encoder_padding_mask), x, **shared)


class PredictorCorrectorDecoderLayer(PredictorCorrectorLayer, RepeatedDecoderLayer):
    """Layer of a decoder without an encoder: causal self-attention and FFN."""

    def forward(
        self,
        x: Tensor,
        *args: Any,
        past: Tensor,
        weight: Tensor,
        norms: StageNorms,
        coefficients: nn.Module,
        **kwargs: Any,
    ) -> Output:
        """Map y_k to F(z) (T, B, C), without attention weights; see :meth:`correct`."""

        def evaluate(index: int, y: Tensor) -> Tensor:
            return self.evaluate(index, y, *args, **kwargs)[0]

        return self.correct(evaluate, x, past, weight, norms, coefficients), None, None


class PredictorCorrectorHistory(LayerHistory):
    """The layers of a stack with their history; its combinations are the rows of w'."""

    def __init__(self, layers: nn.ModuleList, embed_dim: int):
        super().__init__(layers, embed_dim)
        self.correctors: Sequence[Combination] = nn.ModuleList(  # w
            Combination(n + 2) for n in range(len(layers))
        )  # pyright: ignore[reportAttributeAccessIssue]

    def inputs(self, index: int, states: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the corrector's sum over the history (T, B, C) and the prediction's weight (1)."""
        weight = self.correctors[index].weight
        return {"past": weighted_sum(weight[:-1].unbind(), states), "weight": weight[-1:]}
