"""fairseq's encoder and decoder over Runge-Kutta blocks."""

from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths
from fairseq_odeformers.models.common.runge_kutta import RungeKuttaStack, hand_over
from fairseq_odeformers.models.common.transformer import Decoder, Encoder
from fairseq_odeformers.modules.coefficients import make_coefficients

from .layer import RungeKuttaDecoderLayer, RungeKuttaEncoderLayer
from .spec import BlockSpec


class ODEStack(RungeKuttaStack):
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


class ODELanguageModelDecoder(DecoderOfDepths, ODEStack, Decoder):
    """fairseq's decoder of a language model over Runge-Kutta blocks."""

    layer_class = RungeKuttaDecoderLayer
