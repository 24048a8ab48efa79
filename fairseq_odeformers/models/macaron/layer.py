"""The Macaron layer (Lu et al. 2019, section 3.3): attention between two half FFN steps."""

from types import FunctionType
from typing import Callable, Optional

import torch.nn.functional as F
from fairseq.modules import LayerNorm
from fairseq.modules.quant_noise import quant_noise
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from fairseq_odeformers.modules.dropout import Dropout
from fairseq_odeformers.modules.encoder_layer import EncoderLayer


class HalfStepLinear(nn.Linear):
    """Half of an affine map: the last layer of a feed-forward network with a half-step residual."""

    def forward(self, x: Tensor) -> Tensor:
        # Halving is exact wherever it is done; a batch to train on is larger than the weights.
        if self.training:
            return F.linear(x, self.weight / 2, self.bias / 2)
        return F.linear(x, self.weight, self.bias) / 2


def second_name(function: Callable, name: str) -> Callable:
    """The function under another name, which an overriding method can call in TorchScript.

    TorchScript, for which fairseq's layers are written, knows no ``super()``.
    """
    copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__)
    copy.__annotations__ = function.__annotations__
    return copy


class MacaronLayer:
    r"""Strang-Marchuk splitting for a layer of fairseq's Transformer (paper, Eqs. 17 to 19).

    .. math::
        \tilde x = x + \tfrac12 \mathrm{FFN}_{down}(x), \quad
        \hat x = \tilde x + \mathrm{Attention}(\tilde x), \quad
        x' = \hat x + \tfrac12 \mathrm{FFN}_{up}(\hat x)

    A mixin: the attention and the second FFN are fairseq's, and so are all their options; it adds
    the first FFN, of the same width and with the same options, and halves both. With an inner width
    of 2d, two FFNs have the parameters of one with 4d, but for d biases and a LayerNorm of 2d.

    Its parameters ``macaron_fc1``, ``macaron_fc2`` and ``macaron_layer_norm`` have the names of the
    authors' code, whose checkpoints load (see :meth:`upgrade_state_dict_named`).
    """

    # LayerNorms that had another name in the authors' code.
    old_layer_norms: dict[str, str] = {}

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        quantization = (self.quant_noise, self.quant_noise_block_size)
        inner_dim = self.fc1.out_features
        self.macaron_fc1 = self.build_fc1(self.embed_dim, inner_dim, *quantization)
        self.macaron_fc2 = self.build_fc2(inner_dim, self.embed_dim, *quantization)
        self.macaron_layer_norm = LayerNorm(self.embed_dim, export=cfg.export)
        # The project's dropout is the same but for its speed on a CPU.
        for name in ("dropout_module", "activation_dropout_module"):
            module = getattr(self, name)
            setattr(self, name, Dropout(module.p, module_name=module.module_name))

    def build_fc2(self, input_dim, output_dim, q_noise, qn_block_size):
        return quant_noise(HalfStepLinear(input_dim, output_dim), q_noise, qn_block_size)

    def first_half_step(self, x: Tensor) -> Tensor:
        """x + FFN_down(x) / 2 (Eq. 17), from and to (T, B, C)."""
        residual = x
        if self.normalize_before:
            x = self.macaron_layer_norm(x)
        x = self.activation_dropout_module(self.activation_fn(self.macaron_fc1(x)))
        x = self.dropout_module(self.macaron_fc2(x))
        x = self.residual_connection(x, residual)
        if not self.normalize_before:
            x = self.macaron_layer_norm(x)
        return x

    def upgrade_state_dict_named(self, state_dict, name):
        """Rename what the authors' code, on fairseq 0.6, called otherwise.

        Its attention has queries, keys and values in one matrix, which fairseq's own upgrade
        divides.

        Raises:
            ValueError: a parameter is missing or has another shape; it is named as in the
                checkpoint.
        """
        prefix = f"{name}."
        keys = [key[len(prefix) :] for key in state_dict if key.startswith(prefix)]
        # fairseq calls this twice, and an encoder's LayerNorms have new names the second time.
        mark = "layer_norms." if self.old_layer_norms else "in_proj_"
        if not any(mark in key for key in keys):
            return
        for key, shape in self._old_shapes().items():
            if key not in keys:
                raise ValueError(f"the checkpoint has no {prefix}{key}, which its layout asks for")
            if state_dict[prefix + key].shape != shape:
                raise ValueError(
                    f"{prefix}{key} of the checkpoint has shape "
                    f"{tuple(state_dict[prefix + key].shape)}, but the model needs {tuple(shape)}; "
                    "compare the widths in the checkpoint's arguments"
                )
        for new, old in self.old_layer_norms.items():
            for parameter in ("weight", "bias"):
                value = state_dict.pop(f"{prefix}{old}.{parameter}")
                state_dict[f"{prefix}{new}.{parameter}"] = value

    def _old_shapes(self):
        """Name and shape of every parameter of the layer in the authors' code."""
        shapes = {}
        for key, value in self.state_dict().items():
            module, _, parameter = key.rpartition(".")
            attention, _, projection = module.rpartition(".")
            if projection in ("k_proj", "v_proj"):
                continue
            if projection == "q_proj":
                shapes[f"{attention}.in_proj_{parameter}"] = (3 * len(value), *value.shape[1:])
            else:
                shapes[f"{self.old_layer_norms.get(module, module)}.{parameter}"] = value.shape
        return shapes


class MacaronEncoderLayer(MacaronLayer, EncoderLayer):
    """Macaron layer of an encoder; arguments and results are those of fairseq's layer."""

    old_layer_norms = {
        "self_attn_layer_norm": "layer_norms.0",
        "final_layer_norm": "layer_norms.1",
        "macaron_layer_norm": "layer_norms.2",
    }

    attention_and_second_half_step = second_name(
        TransformerEncoderLayerBase.forward, "attention_and_second_half_step"
    )

    def forward(
        self, x, encoder_padding_mask: Optional[Tensor], attn_mask: Optional[Tensor] = None
    ):
        return self.attention_and_second_half_step(
            self.first_half_step(x), encoder_padding_mask, attn_mask
        )


class MacaronDecoderLayer(MacaronLayer, TransformerDecoderLayerBase):
    """Macaron layer of a decoder: FFN, self-attention, encoder-decoder attention, FFN.

    Arguments and results are those of fairseq's layer.
    """

    attention_and_second_half_step = second_name(
        TransformerDecoderLayerBase.forward, "attention_and_second_half_step"
    )

    def forward(
        self,
        x,
        encoder_out: Optional[Tensor] = None,
        encoder_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[dict[str, dict[str, Optional[Tensor]]]] = None,
        prev_self_attn_state: Optional[list[Tensor]] = None,
        prev_attn_state: Optional[list[Tensor]] = None,
        self_attn_mask: Optional[Tensor] = None,
        self_attn_padding_mask: Optional[Tensor] = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ):
        return self.attention_and_second_half_step(
            self.first_half_step(x),
            encoder_out,
            encoder_padding_mask,
            incremental_state,
            prev_self_attn_state,
            prev_attn_state,
            self_attn_mask,
            self_attn_padding_mask,
            need_attn,
            need_head_weights,
        )
