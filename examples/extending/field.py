"""Continuous depth: each layer solves X' = F(t, X) from t = 0 to 1, on a grid or adaptively."""

from dataclasses import dataclass

import torch
from fairseq.models import register_model
from torch import nn

from fairseq_odeformers.models.common.transformer import Encoder
from fairseq_odeformers.models.common.transformer_classifier import (
    TransformerClassifier,
    TransformerClassifierConfig,
)
from fairseq_odeformers.models.node_transformer.block import NodeBlock
from fairseq_odeformers.models.node_transformer.layout import Affine, TimeDependentLinear
from fairseq_odeformers.models.node_transformer.solver import Adaptive, FixedGrid
from fairseq_odeformers.options import option


class MeanField(nn.Module):
    """F(t, X) = B tanh(A [X; M] + c t), where M is the mean over the tokens of a text."""

    def __init__(self, width, inner_width):
        super().__init__()
        self.fc1 = TimeDependentLinear(2 * width, inner_width)  # A x + b + c t
        self.fc2 = TimeDependentLinear(inner_width, width, time_dependent=False)

    def bind(self, x, padding_mask=None):  # x: (C, T, B), padding_mask: (B, T)
        fc1, fc2 = Affine.join(self.fc1), Affine.join(self.fc2)  # in float32, as solvers are
        is_token = x.new_ones(x.shape[1:]) if padding_mask is None else (~padding_mask).T.to(x)
        count = is_token.sum(0).clamp(min=1)  # (B)

        def field(t, x):  # t: a number, or one for each text (B)
            mean = (x * is_token).sum(1, keepdim=True) / count
            return fc2(t, fc1(t, torch.cat([x, mean.expand_as(x)])).tanh()) * is_token

        return field


class MeanFieldLayer(NodeBlock):
    def __init__(self, cfg, return_fc=False):
        field = MeanField(cfg.encoder.embed_dim, cfg.encoder.ffn_embed_dim)
        if cfg.grid_steps:
            solver = FixedGrid("rk4", cfg.grid_steps)
        else:  # a text has steps of its own, whatever the other texts of its batch are
            solver = Adaptive("dopri5", rtol=1e-3, atol=1e-3, per_sequence=True)
        super().__init__(field, solver, final_time=1.0)


class MeanFieldEncoder(Encoder):
    layer_class = MeanFieldLayer


@dataclass
class MeanFieldConfig(TransformerClassifierConfig):
    encoder_normalize_before: bool = option(True, "apply LayerNorm after the last layer")
    grid_steps: int = option(2, "number of steps of rk4; 0 for adaptive steps", at_least=0)


@register_model("mean_field_classifier", dataclass=MeanFieldConfig)
class MeanFieldClassifier(TransformerClassifier):
    """A classifier whose layers are ODEs."""

    encoder_class = MeanFieldEncoder
