"""fairseq's encoder and decoder over layers that predict and correct, with their history."""

from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths
from fairseq_odeformers.models.common.runge_kutta import RungeKuttaStack, hand_over, join_history
from fairseq_odeformers.models.common.transformer import Config, Decoder, Encoder
from fairseq_odeformers.modules.coefficients import ExponentialCoefficients

from .layer import (
    PredictorCorrectorDecoderLayer,
    PredictorCorrectorEncoderLayer,
    PredictorCorrectorHistory,
    StageNorms,
)
from .spec import LayerSpec


class PredictorCorrectorStack(RungeKuttaStack):
    """Mixin for an encoder or decoder of layers that share LayerNorms and, by default, alpha."""

    spec_class = LayerSpec
    spec: LayerSpec

    def __init__(self, cfg: Config, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        join_history(self, PredictorCorrectorHistory)

    def share(self, layers):
        spec = self.spec
        self.norms = StageNorms(spec)
        hand_over(self, ["norms"], layers)
        if spec.alpha_per_layer:
            for layer in layers:
                layer.coefficients = ExponentialCoefficients()
                hand_over(layer, ["coefficients"], [layer])
        else:
            self.coefficients = ExponentialCoefficients()
            hand_over(self, ["coefficients"], layers)


class PCformerEncoder(EncoderOfDepths, PredictorCorrectorStack, Encoder):
    """fairseq's Transformer encoder over layers that predict and correct."""

    layer_class = PredictorCorrectorEncoderLayer


class PCformerDecoder(DecoderOfDepths, Decoder):
    """fairseq's Transformer decoder over fairseq's layers, with their history."""

    def __init__(self, cfg: Config, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        join_history(self)


class PCformerLanguageModelDecoder(DecoderOfDepths, PredictorCorrectorStack, Decoder):
    """fairseq's decoder of a language model over layers that predict and correct."""

    layer_class = PredictorCorrectorDecoderLayer
