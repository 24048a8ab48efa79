"""fairseq's encoder and decoder over layers that predict and correct, with their history."""

from torch import nn

from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths
from fairseq_odeformers.models.common.history import keep_history
from fairseq_odeformers.models.common.runge_kutta import hand_over
from fairseq_odeformers.models.common.transformer import Decoder, Encoder
from fairseq_odeformers.modules.coefficients import ExponentialCoefficients
from fairseq_odeformers.modules.transformer_layer import DecoderLayer

from .layer import (
    PredictorCorrectorDecoderLayer,
    PredictorCorrectorEncoderLayer,
    PredictorCorrectorHistory,
    PredictorCorrectorLayer,
    StageNorms,
)


class PredictorCorrectorStack(nn.Module):
    """Mixin of an encoder or decoder whose layers share LayerNorms of stages, and perhaps alpha."""

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        layers = [m for m in self.modules() if isinstance(m, PredictorCorrectorLayer)]
        self.norms = StageNorms(layers[0].embed_dim, cfg.rk_order, cfg.rk_norm)
        for owner in layers if cfg.alpha_per_layer else [self]:
            owner.coefficients = ExponentialCoefficients()
        for layer in layers:
            hand_over(layer if cfg.alpha_per_layer else self, ["coefficients"], [layer])
        hand_over(self, ["norms"], layers)
        keep_history(self, PredictorCorrectorHistory)


class PCformerEncoder(EncoderOfDepths, PredictorCorrectorStack, Encoder):
    """fairseq's Transformer encoder over layers that predict and correct."""

    layer_class = PredictorCorrectorEncoderLayer


class PCformerDecoder(DecoderOfDepths, Decoder):
    """fairseq's Transformer decoder with a history of its layers, which are fairseq's."""

    layer_class = DecoderLayer

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        keep_history(self)


class PCformerLanguageModelDecoder(DecoderOfDepths, PredictorCorrectorStack, Decoder):
    """fairseq's decoder of a language model over layers that predict and correct."""

    layer_class = PredictorCorrectorDecoderLayer
