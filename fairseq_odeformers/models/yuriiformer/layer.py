"""The step of an accelerated method, layers of such steps, and a block of layers."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from fairseq_odeformers.modules.incremental import IncrementalState
from fairseq_odeformers.modules.transformer_layer import (
    Block,
    DecoderLayer,
    EncoderLayer,
    Output,
    key_padding_mask,
)

from .spec import LayerSpec

Moved = tuple[Tensor, Tensor]  # x and v (T, B, C)


class LayerNormWithoutBias(nn.LayerNorm):
    """LayerNorm without a bias.

    ``nn.LayerNorm(..., bias=False)`` still lists a bias, with the value None, and fairseq's trainer
    would treat it as a shared parameter.
    """

    def __init__(self, embed_dim: int):
        super().__init__(embed_dim, bias=False)
        del self.bias
        self.bias = None


class Step(nn.Module):
    r"""The step of one sub-layer O, without O itself.

    .. math::
        g = O(\mathrm{LN}(x + \mu v)), \quad v' = \mathrm{LN}_v(\beta v + \gamma g), \quad
        x' = x + \nu v'

    Initially, mu = beta = 1/2, gamma = ln 2 and nu = 1. In a step from rest, v = 0, so the step
    has neither mu nor beta. It has no gamma either, because LN_v cancels it: v' = LN_v(g).

    Args:
        embed_dim: width C.
        from_rest: whether v = 0.
        learns_nu: whether nu is learned (TMMFormer) instead of 1 (YuriiFormer).
    """

    def __init__(self, embed_dim: int, from_rest: bool = False, learns_nu: bool = False):
        super().__init__()
        self.from_rest, self.learns_nu = from_rest, learns_nu
        self.layer_norm = LayerNormWithoutBias(embed_dim)
        self.velocity_layer_norm = LayerNormWithoutBias(embed_dim)
        if not from_rest:
            self.raw_mu = nn.Parameter(torch.zeros(1))
            self.raw_beta = nn.Parameter(torch.zeros(1))
            self.raw_gamma = nn.Parameter(torch.zeros(1))
        if learns_nu:
            self.raw_nu = nn.Parameter(torch.full((1,), math.log(math.e - 1)))

    def mu(self) -> Tensor:
        """Return mu (1), the factor of the velocity in the input of O, between 0 and 1."""
        return self.raw_mu.sigmoid()

    def beta(self) -> Tensor:
        """Return beta (1), the factor of the velocity in the new velocity, between 0 and 1."""
        return self.raw_beta.sigmoid()

    def gamma(self) -> Tensor:
        """Return gamma (1), the positive factor of O; only beta / gamma matters because of LN_v."""
        return F.softplus(self.raw_gamma)

    def nu(self) -> Tensor:
        """Return nu (1), the positive size of a step, learned only in TMMFormer."""
        return F.softplus(self.raw_nu)

    def look(self, x: Tensor, v: Tensor | None) -> Tensor:
        """Return the input LN(x + mu v) of O (T, B, C); *v* is None at rest."""
        return self.layer_norm(x if v is None else torch.addcmul(x, v, self.mu()))

    def move(self, x: Tensor, v: Tensor | None, g: Tensor) -> Moved:
        """Return x' and v' (T, B, C) for the result g (T, B, C) of O; *v* is None at rest."""
        if v is not None:
            g = torch.addcmul(self.gamma() * g, v, self.beta())
        moved: Tensor = self.velocity_layer_norm(g)
        return torch.addcmul(x, moved, self.nu()) if self.learns_nu else x + moved, moved

    def scalars(self) -> dict[str, Tensor]:
        """Return the learned scalars that have an effect, each (1): mu, beta / gamma and nu."""
        scalars: dict[str, Tensor] = {}
        if not self.from_rest:
            scalars = {"mu": self.mu(), "beta_over_gamma": self.beta() / self.gamma()}
        return {**scalars, "nu": self.nu()} if self.learns_nu else scalars


class MomentumLayer(nn.Module):
    """Mixin that turns the sub-layers of fairseq's Transformer layer into steps.

    Attention and FFN are fairseq's, with their options. The LayerNorms belong to the steps.
    """

    # Set by fairseq's layer.
    embed_dim: int
    fc1: nn.Module
    fc2: nn.Module
    activation_fn: Any
    dropout_module: nn.Module
    activation_dropout_module: nn.Module

    def __init__(self, cfg: TransformerConfig, spec: LayerSpec, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        width, learns_nu = self.embed_dim, spec.nu == "learned"
        del self.self_attn_layer_norm, self.final_layer_norm
        self.self_attn_step = Step(width, spec.from_rest, learns_nu)
        if getattr(self, "encoder_attn", None) is not None:
            del self.encoder_attn_layer_norm
            self.encoder_attn_step = Step(width, learns_nu=learns_nu)
        self.ffn_step = Step(width, learns_nu=learns_nu)

    def ffn(self, x: Tensor) -> Tensor:
        """Apply fairseq's FFN, from and to (T, B, C)."""
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        return self.dropout_module(self.fc2(x))

    def residual_weights(self) -> dict[str, Tensor]:
        """Return the scalars of the steps, each (1), by name, for analysis and the log."""
        return {
            f"{name.removesuffix('_step')}_{scalar}": value
            for name, step in self.named_children()
            if isinstance(step, Step)
            for scalar, value in step.scalars().items()
        }


class MomentumEncoderLayer(MomentumLayer, EncoderLayer):
    """Layer of an encoder: self-attention, then FFN."""

    def forward(
        self, x: Tensor, velocity: Tensor | None, encoder_padding_mask: Tensor | None
    ) -> Moved:
        """Map x and v (T, B, C) to x' and v' (T, B, C); a velocity of None is zero."""
        query = self.self_attn_step.look(x, velocity)
        g, _ = self.self_attn(
            query=query,
            key=query,
            value=query,
            key_padding_mask=key_padding_mask(encoder_padding_mask),
            need_weights=False,
        )
        x, v = self.self_attn_step.move(x, velocity, self.dropout_module(g))
        return self.ffn_step.move(x, v, self.ffn(self.ffn_step.look(x, v)))


class MomentumDecoderLayer(MomentumLayer, DecoderLayer):
    """Layer of a decoder: self-attention, cross-attention if there is a source, then FFN.

    In incremental decoding, keys and values are kept as in a Transformer. The velocity of a token
    starts and ends within one pass, so it is not kept.
    """

    def forward(
        self,
        x: Tensor,
        velocity: Tensor | None,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return x' and v' (T, B, C), and the weights of the cross-attention if needed.

        The other arguments are as in fairseq's layer; a velocity of None is zero.
        """
        need_attn = need_attn or need_head_weights or (not self.training and self.need_attn)
        attn, query = None, self.self_attn_step.look(x, velocity)
        g, _ = self.self_attn(
            query=query,
            key=query,
            value=query,
            key_padding_mask=self_attn_padding_mask,
            incremental_state=incremental_state,
            need_weights=False,
            attn_mask=self_attn_mask,
        )
        x, v = self.self_attn_step.move(x, velocity, self.dropout_module(g))
        if self.encoder_attn is not None and encoder_out is not None:
            g, attn = self.encoder_attn(
                query=self.encoder_attn_step.look(x, v),
                key=encoder_out,
                value=encoder_out,
                key_padding_mask=key_padding_mask(encoder_padding_mask),
                incremental_state=incremental_state,
                static_kv=True,
                need_weights=need_attn,
                need_head_weights=need_head_weights,
            )
            x, v = self.encoder_attn_step.move(x, v, self.dropout_module(g))
        return *self.ffn_step.move(x, v, self.ffn(self.ffn_step.look(x, v))), attn


class MomentumBlock(Block):
    """The layers of an encoder or decoder as one block, with a velocity that passes through them.

    Args:
        layers: layers of an encoder or decoder; each returns x', v' and, in a decoder, attention
            weights.
    """

    def __init__(self, layers: nn.ModuleList):
        super().__init__()
        self.depths = layers
        self.states = nn.ModuleList(nn.Identity() for _ in layers)

    def forward(
        self, x: Tensor, *args: Any, velocity: Tensor | None = None, **kwargs: Any
    ) -> Tensor | Output:
        """Map (T, B, C) to (T, B, C), with the attention weights of a decoder's last layer.

        Args:
            velocity: initial velocity (T, B, C); None is zero.
        """
        needs = {name: value for name, value in kwargs.items() if name.startswith("need_")}
        kwargs = {**kwargs, **dict.fromkeys(needs, False)}
        out: Sequence[Tensor | None] = ()
        for index, (layer, state) in enumerate(zip(self.depths, self.states)):
            if index == len(self.depths) - 1:
                kwargs |= needs
            x, velocity, *out = layer(x, velocity, *args, **kwargs)
            x = state(x)
        return (x, out[0], None) if out else x

    def state_modules(self) -> nn.ModuleList:
        """Return the modules whose outputs are the states (T, B, C) after each layer."""
        return self.states
