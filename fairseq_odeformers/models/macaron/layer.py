"""The Macaron layer (Lu et al. 2019, section 3.3): attention between two FFNs of half a step."""

from fairseq.modules import LayerNorm
from fairseq.modules.quant_noise import quant_noise
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from fairseq_odeformers.modules.dropout import Dropout
from fairseq_odeformers.modules.encoder_layer import EncoderLayer


class HalfStepLinear(nn.Linear):
    """(W x + b) / 2: the output layer of an FFN of half a step."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 2


class MacaronLayer:
    r"""Strang-Marchuk splitting for a layer of fairseq's Transformer (paper, Eqs. 17 to 19).

    .. math::
        \tilde x = x + \tfrac12 \mathrm{FFN}_{down}(x), \quad
        \hat x = \tilde x + \mathrm{Attention}(\tilde x), \quad
        x' = \hat x + \tfrac12 \mathrm{FFN}_{up}(\hat x)

    A mixin: the attention and FFN_up are fairseq's, with all their options. It adds FFN_down, of
    the same width and with the same options, and halves both. Two FFNs with an inner width of 2d
    have 3d more parameters than one of 4d: a LayerNorm and d biases.

    The names of ``macaron_fc1``, ``macaron_fc2`` and ``macaron_layer_norm`` are those of the
    authors' code.
    """

    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)  # attention and FFN_up
        quantization = (self.quant_noise, self.quant_noise_block_size)
        inner_dim = self.fc1.out_features
        self.macaron_fc1 = self.build_fc1(self.embed_dim, inner_dim, *quantization)
        self.macaron_fc2 = self.build_fc2(inner_dim, self.embed_dim, *quantization)
        self.macaron_layer_norm = LayerNorm(self.embed_dim, export=cfg.export)
        # The project's dropout differs in its speed on a CPU alone.
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


class MacaronEncoderLayer(MacaronLayer, EncoderLayer):
    """Macaron layer of an encoder; arguments and results are fairseq's."""

    def forward(self, x, encoder_padding_mask, attn_mask=None):
        x = self.first_half_step(x)
        return super().forward(x, hidden_keys(encoder_padding_mask), attn_mask)

    def upgrade_state_dict_named(self, state_dict, name):
        """Give the LayerNorms of the authors' checkpoints the names that they have here."""
        own = ("self_attn_layer_norm", "final_layer_norm", "macaron_layer_norm")
        for number, layer_norm in enumerate(own):
            for parameter in ("weight", "bias"):
                old = f"{name}.layer_norms.{number}.{parameter}"
                if old in state_dict:
                    state_dict[f"{name}.{layer_norm}.{parameter}"] = state_dict.pop(old)


class MacaronDecoderLayer(MacaronLayer, TransformerDecoderLayerBase):
    """Macaron layer of a decoder: FFN, self-attention, encoder-decoder attention, FFN.

    Arguments and results are fairseq's.
    """

    def forward(self, x, encoder_out=None, encoder_padding_mask=None, *args, **kwargs):
        x = self.first_half_step(x)
        return super().forward(x, encoder_out, hidden_keys(encoder_padding_mask), *args, **kwargs)


def hidden_keys(padding_mask: Tensor | None) -> Tensor | None:
    """The keys that attention does not see (B, T): padding, but not in a sequence of padding alone.

    Without any key the attention weights would not be numbers.
    """
    if padding_mask is None:
        return None
    return padding_mask & ~padding_mask.all(1, keepdim=True)
