"""The Macaron layer (Lu et al. 2019, section 3.3): attention between two half-step FFNs."""

from collections.abc import Callable

from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn

from fairseq_odeformers.modules.basics import Dropout
from fairseq_odeformers.modules.transformer_layer import DecoderLayer, EncoderLayer, Output


class HalfStepLinear(nn.Linear):
    """(W x + b) / 2: the output layer of a half-step FFN."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 2


class MacaronLayer(nn.Module):
    r"""Mixin that turns fairseq's Transformer layer into a Macaron layer (paper, Eqs. 17 to 19).

    .. math::
        \tilde x = x + \tfrac12 \mathrm{FFN}_\mathrm{down}(x), \quad
        \hat x = \tilde x + \mathrm{Attention}(\tilde x), \quad
        x' = \hat x + \tfrac12 \mathrm{FFN}_\mathrm{up}(\hat x)

    The attention and FFN_up are fairseq's, with all their options. The mixin adds FFN_down with the
    same width and options, and halves the output of both FFNs. Two FFNs with an inner width of 2d
    have 3d more parameters than one FFN with 4d: a LayerNorm and d biases.

    The names ``macaron_fc1``, ``macaron_fc2`` and ``macaron_layer_norm`` come from the authors'
    code.
    """

    # Set by fairseq's layer.
    embed_dim: int
    normalize_before: bool
    quant_noise: float
    quant_noise_block_size: int
    activation_fn: Callable[[Tensor], Tensor]
    fc1: nn.Linear
    build_fc1: Callable[[int, int, float, int], nn.Linear]
    residual_connection: Callable[[Tensor, Tensor], Tensor]
    dropout_module: nn.Module
    activation_dropout_module: nn.Module

    def __init__(self, cfg: TransformerConfig, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)  # attention and FFN_up
        quantization = (self.quant_noise, self.quant_noise_block_size)
        width, inner = self.embed_dim, self.fc1.out_features
        self.macaron_fc1 = self.build_fc1(width, inner, *quantization)
        self.macaron_fc2 = self.build_fc2(inner, width, *quantization)
        self.macaron_layer_norm = LayerNorm(width, export=cfg.export)
        # This dropout equals fairseq's, but is faster on a CPU.
        for name in ("dropout_module", "activation_dropout_module"):
            module = getattr(self, name)
            setattr(self, name, Dropout(module.p, module_name=module.module_name))

    def build_fc2(
        self, input_dim: int, output_dim: int, q_noise: float, qn_block_size: int
    ) -> nn.Linear:
        """Build the output layer of an FFN; fairseq's layer calls this method for FFN_up."""
        return quant_noise(HalfStepLinear(input_dim, output_dim), q_noise, qn_block_size)

    def first_half_step(self, x: Tensor) -> Tensor:
        """Return x + FFN_down(x) / 2 (Eq. 17) for x (T, B, C)."""
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
    """Macaron layer of an encoder."""

    def forward(self, x: Tensor, *args, **kwargs) -> Tensor:
        """Map (T, B, C) to (T, B, C): FFN_down, then attention and FFN_up as in fairseq's layer."""
        return super().forward(self.first_half_step(x), *args, **kwargs)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Rename the third LayerNorm in the authors' checkpoints; fairseq renames the first two."""
        super().upgrade_state_dict_named(state_dict, name)
        for parameter in ("weight", "bias"):
            old = f"{name}.layer_norms.2.{parameter}"
            if old in state_dict:
                state_dict[f"{name}.macaron_layer_norm.{parameter}"] = state_dict.pop(old)


class MacaronDecoderLayer(MacaronLayer, DecoderLayer):
    """Macaron layer of a decoder: FFN, self-attention, cross-attention, FFN."""

    def forward(self, x: Tensor, *args, **kwargs) -> Output:
        """Map (T, B, C) to (T, B, C): FFN_down, then fairseq's layer with both attentions."""
        return super().forward(self.first_half_step(x), *args, **kwargs)
