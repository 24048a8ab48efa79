"""fairseq's encoder and decoder over Runge-Kutta blocks."""

from torch import nn

from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths
from fairseq_odeformers.models.common.history import keep_history
from fairseq_odeformers.models.common.runge_kutta import (
    RungeKuttaDecoderLayer,
    RungeKuttaEncoderLayer,
    RungeKuttaLayer,
    hand_over,
)
from fairseq_odeformers.models.common.transformer import Decoder, Encoder
from fairseq_odeformers.modules.coefficients import make_coefficients
from fairseq_odeformers.modules.transformer_layer import DecoderLayer


class RungeKuttaStack(nn.Module):
    """Mixin of an encoder or decoder whose blocks share one module of coefficients."""

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        # To iterate over self.layers would leave out those that layerdrop happens to drop.
        blocks = [module for module in self.modules() if isinstance(module, RungeKuttaLayer)]
        form = cfg.rk_coefficients or default_coefficients(cfg.rk_order)
        self.coefficients = make_coefficients(cfg.rk_order, form, blocks[0].embed_dim)
        hand_over(self, ["coefficients"], blocks)
        if cfg.dense_history:
            keep_history(self)


def default_coefficients(order: int) -> str:
    """The coefficients of blocks of an order where no option says: the paper's best."""
    return "gated" if order == 2 else "fixed"


class ODETransformerEncoder(EncoderOfDepths, RungeKuttaStack, Encoder):
    """fairseq's Transformer encoder over Runge-Kutta blocks."""

    layer_class = RungeKuttaEncoderLayer


class ODETransformerDecoder(DecoderOfDepths, Decoder):
    """fairseq's Transformer decoder over its own layers: the paper's blocks are the encoder's."""

    layer_class = DecoderLayer

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        if cfg.dense_history:
            keep_history(self)


class ODELanguageModelDecoder(DecoderOfDepths, RungeKuttaStack, Decoder):
    """fairseq's decoder of a language model over Runge-Kutta blocks."""

    layer_class = RungeKuttaDecoderLayer
