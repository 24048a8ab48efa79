"""fairseq's encoder and decoder over Runge-Kutta blocks."""

from torch import nn

from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths
from fairseq_odeformers.models.common.runge_kutta import RungeKuttaStack, hand_over, join_history
from fairseq_odeformers.models.common.transformer import Config, Decoder, Encoder
from fairseq_odeformers.modules.coefficients import make_coefficients

from .layer import RungeKuttaDecoderLayer, RungeKuttaEncoderLayer
from .spec import BlockSpec


class HistoryStack(nn.Module):
    """Mixin for an encoder or decoder: its layers have a history with ``--dense-history``."""

    def __init__(self, cfg: Config, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        if cfg.dense_history:
            join_history(self)


class ODEStack(HistoryStack, RungeKuttaStack):
    """Mixin for an encoder or decoder: all blocks share one module of coefficients."""

    spec_class = BlockSpec
    spec: BlockSpec

    def share(self, layers):
        spec = self.spec
        self.coefficients = make_coefficients(spec.rk_order, spec.coefficients, spec.embed_dim)
        hand_over(self, ["coefficients"], layers)


class ODETransformerEncoder(EncoderOfDepths, ODEStack, Encoder):
    """fairseq's Transformer encoder over Runge-Kutta blocks."""

    layer_class = RungeKuttaEncoderLayer


class ODETransformerDecoder(DecoderOfDepths, HistoryStack, Decoder):
    """fairseq's Transformer decoder over fairseq's layers."""


class ODELanguageModelDecoder(DecoderOfDepths, ODEStack, Decoder):
    """fairseq's decoder of a language model over Runge-Kutta blocks."""

    layer_class = RungeKuttaDecoderLayer
