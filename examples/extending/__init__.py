r"""An architecture of your own: a Transformer whose layers take implicit steps.

A layer with LayerNorm before its sub-layers adds :math:`F(x)` to its input x, one explicit step of
Euler's method. An implicit step has the slope at its own end,

.. math::
    x' = x + F(x'), \quad F(y) = \mathrm{layer}(y) - y

A few fixed-point iterations from x solve it: each evaluates the same layer once more, with no more
parameters. One iteration is the Transformer. Train with ``--user-dir examples/extending --arch
implicit_transformer``, which translates, ``implicit_transformer_classifier`` or
``implicit_transformer_lm``.

Other files show layers that solve an ODE (``field``), layers that reuse slopes
(``adams_bashforth``), a state of the whole stack (``momentum``) and a layer in plain PyTorch
(``plain``).
"""

from dataclasses import dataclass

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

# Registers tasks and criterions, too: no other --user-dir is needed.
import fairseq_odeformers  # noqa: F401
from fairseq_odeformers.models.common.language_model import LanguageModel, LanguageModelConfig
from fairseq_odeformers.models.common.prenorm_transformer import (
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.models.common.transformer import Decoder, Encoder
from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.modules.transformer_layer import EncoderLayer, RepeatedDecoderLayer
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import register_preset

from . import adams_bashforth, field, momentum  # noqa: F401  to register their models


def implicit_step(layer, x, iterations):
    """x' for states x (T, B, C), where *layer* is a function of the iteration's number and y."""
    y = x
    for index in range(iterations):
        y = x + layer(index, y) - y
    return y


class ImplicitEncoderLayer(EncoderLayer):
    """fairseq's encoder layer, evaluated several times per pass."""

    def __init__(self, cfg, **kwargs):
        super().__init__(cfg, **kwargs)
        self.iterations = cfg.implicit_iterations

    def forward(self, x, encoder_padding_mask, attn_mask=None):
        layer = super().forward

        def evaluate(index, y):
            return layer(y, encoder_padding_mask, attn_mask)

        return implicit_step(evaluate, x, self.iterations)


class ImplicitDecoderLayer(RepeatedDecoderLayer):
    """fairseq's decoder layer: ``evaluate`` gives each evaluation a key/value cache of its own."""

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        self.iterations = cfg.implicit_iterations

    def forward(self, x, *args, **kwargs):
        def evaluate(index, y):
            output, attention_weights, _ = self.evaluate(index, y, *args, **kwargs)
            return output

        return implicit_step(evaluate, x, self.iterations), None, None


class ImplicitEncoder(Encoder):
    layer_class = ImplicitEncoderLayer


class ImplicitDecoder(Decoder):
    layer_class = ImplicitDecoderLayer


@dataclass
class ImplicitConfig(FairseqDataclass):
    """An option of your own; fairseq's layers find it in their config."""

    implicit_iterations: int = option(2, "fixed-point iterations of a layer", at_least=1)


@dataclass
class ImplicitClassifierConfig(ImplicitConfig, TransformerClassifierConfig):
    encoder_normalize_before: bool = option(True, "apply LayerNorm before each encoder sub-layer")


@register_model("implicit_transformer_classifier", dataclass=ImplicitClassifierConfig)
class ImplicitClassifier(TransformerClassifier):
    """The classifier; pooling, heads, tasks and predictions come with its base class."""

    encoder_class = ImplicitEncoder


@dataclass
class ImplicitLanguageModelConfig(ImplicitConfig, LanguageModelConfig):
    decoder_normalize_before: bool = option(True, "apply LayerNorm before each decoder sub-layer")


@register_model("implicit_transformer_lm", dataclass=ImplicitLanguageModelConfig)
class ImplicitLanguageModel(LanguageModel):
    """The language model, which fairseq also generates with."""

    decoder_class = ImplicitDecoder


@dataclass
class ImplicitTransformerConfig(ImplicitConfig, PreNormTransformerConfig):
    pass


@register_model("implicit_transformer", dataclass=ImplicitTransformerConfig)
class ImplicitTransformer(PreNormTransformer):
    """The translator: both stacks take implicit steps."""

    encoder_class = ImplicitEncoder
    decoder_class = ImplicitDecoder


register_preset(
    "implicit_transformer_classifier", "implicit_transformer_classifier_4", implicit_iterations=4
)
