"""fairseq's encoder and decoder over layers that predict and correct, with their history."""

from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths
from fairseq_odeformers.models.common.runge_kutta import RungeKuttaStack, hand_over
from fairseq_odeformers.models.common.transformer import Decoder, Encoder
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
    history_class = PredictorCorrectorHistory

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


class PCformerLanguageModelDecoder(DecoderOfDepths, PredictorCorrectorStack, Decoder):
    """fairseq's decoder of a language model over layers that predict and correct."""

    layer_class = PredictorCorrectorDecoderLayer
