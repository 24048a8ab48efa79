"""A plugin with models of three kinds, each with one fault; ``sound`` has none."""

import torch
from fairseq.models import register_model
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch.nn import functional

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
from fairseq_odeformers.modules.transformer_layer import EncoderLayer


class Layer(TransformerDecoderLayerBase):
    """fairseq's decoder layer, with a change of its output."""

    def forward(self, x, *args, **kwargs):
        x, *rest = super().forward(x, *args, **kwargs)
        return self.change(x), *rest

    def change(self, x):
        return x


class LookAhead(Layer):
    def change(self, x):
        return x + x.mean(0)


class NotANumber(Layer):
    def change(self, x):
        return x * torch.log(x.sum().mul(0).sub(1))


class Shape(Layer):
    def change(self, x):
        return x[..., 1:]


class Dropout(Layer):
    def change(self, x):
        return functional.dropout(x, 0.1)


class Memory(Layer):
    calls = 0

    def change(self, x):
        self.calls += 1
        return x * self.calls


class Mistake(Layer):
    def change(self, x):
        return x + undefined_name  # noqa: F821


class Cache(TransformerDecoderLayerBase):
    def forward(self, x, *args, **kwargs):
        x, *_ = super().forward(x, *args, **kwargs)
        return super().forward(x, *args, **kwargs)


class Beams(TransformerDecoderLayerBase):
    """Adds the sum of the prefix, which the cache keeps without following its beam."""

    def forward(self, x, encoder_out=None, mask=None, incremental_state=None, **kwargs):
        prefix = x.cumsum(0)
        if incremental_state is not None:
            kept = incremental_state.get(f"sum{id(self)}", 0)
            prefix = (
                prefix + kept if torch.is_tensor(kept) and kept.size(0) == x.size(1) else prefix
            )
            incremental_state[f"sum{id(self)}"] = prefix[-1]
        return super().forward(x + 0.1 * prefix, encoder_out, mask, incremental_state, **kwargs)


class Padding(EncoderLayer):
    def forward(self, x, *args, **kwargs):
        return super().forward(x + x.mean(0), *args, **kwargs)


class Mask(EncoderLayer):
    def forward(self, x, encoder_padding_mask, attn_mask=None):
        return super().forward(x, None, attn_mask)


class Batch(EncoderLayer):
    def forward(self, x, *args, **kwargs):
        return super().forward(x - x.mean(1, keepdim=True), *args, **kwargs)


for name, layer in {
    "sound": Layer,
    "look_ahead": LookAhead,
    "not_a_number": NotANumber,
    "shape": Shape,
    "dropout": Dropout,
    "memory": Memory,
    "mistake": Mistake,
    "cache": Cache,
    "beams": Beams,
}.items():
    decoder = type("FaultyDecoder", (Decoder,), {"layer_class": layer})
    model = type(f"Model_{name}", (LanguageModel,), {"decoder_class": decoder})
    register_model(name, dataclass=type(f"Config_{name}", (LanguageModelConfig,), {}))(model)


@register_model("mask", dataclass=type("Config_mask", (PreNormTransformerConfig,), {}))
class MaskedTranslator(PreNormTransformer):
    encoder_class = type("FaultyEncoder", (Encoder,), {"layer_class": Mask})


for name, layer in {"padding": Padding, "batch": Batch}.items():
    encoder = type("FaultyEncoder", (Encoder,), {"layer_class": layer})
    model = type(f"Model_{name}", (TransformerClassifier,), {"encoder_class": encoder})
    config = type(f"Config_{name}", (TransformerClassifierConfig,), {})
    register_model(name, dataclass=config)(model)
