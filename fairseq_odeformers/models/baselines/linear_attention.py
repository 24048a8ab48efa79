"""Linear attention: Katharopoulos et al. 2020, "Transformers are RNNs" (arXiv:2006.16236)."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import MultiheadAttention
from torch import Tensor

from fairseq_odeformers.models.common.answers import LayerParts
from fairseq_odeformers.modules.basics import at_least_float32
from fairseq_odeformers.modules.transformer_layer import EncoderLayer

MIN_TOTAL = 1e-6  # lower bound: all features of a query or of the keys may round to 0


class LinearAttention(MultiheadAttention):
    r"""Self-attention in time and memory O(T) (Eqs. 5 and 7), with fairseq's parameters.

    .. math::
        Y_i = \frac{\phi(Q_i)^T \sum_j \phi(K_j) V_j^T}{\phi(Q_i)^T \sum_j \phi(K_j)},
        \quad \phi(x) = \mathrm{elu}(x) + 1

    The sums run over the tokens j that are not padding, in single precision or better.
    """

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_head_weights: bool = False,
        **unused: object,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute Y (T, B, C) from one state as query, key and value.

        Args:
            query, key, value: the same states (T, B, C).
            key_padding_mask: true where a token is padding (B, T).
            need_head_weights: whether to compute the weights of all pairs of tokens as well.

        Returns:
            The attention's output (T, B, C), and the weights (H, B, T, T) or None.
        """
        with torch.autocast(query.device.type, enabled=False):
            q, k, v = self.features(query, key_padding_mask)
            heads = q @ (k.mT @ v)
            weights = (q @ k.mT).transpose(0, 1) if need_head_weights else None
        return self.out_proj(heads.permute(2, 0, 1, 3).flatten(2).to(query)), weights

    def layer_parts(self, *, query: Tensor, **unused: object) -> Iterator[LayerParts]:
        """Yield the outputs of the heads for one text (T, 1, C)."""
        q, k, v = self.features(query, None)
        yield LayerParts((q @ (k.mT @ v))[0])

    def features(self, x: Tensor, padding_mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        r"""Return the factors Q', K' and V of the attention Q' K'^T V for states (T, B, C).

        Returns:
            For each head (B, H, T, C/H): :math:`\phi(Q_i) / \phi(Q_i)^T \sum_j \phi(K_j)`;
            :math:`\phi(K_j)`, or 0 for padding; and :math:`V_j`.
        """
        q, k, v = (
            at_least_float32(project(x)).unflatten(-1, (self.num_heads, -1)).permute(1, 2, 0, 3)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = F.elu(q) + 1, F.elu(k) + 1
        if padding_mask is not None:
            k = k * ~padding_mask[:, None, :, None]
        total = (q * k.sum(2, keepdim=True)).sum(-1, keepdim=True)
        return q / total.clamp(min=MIN_TOTAL), k, v


class LinearEncoderLayer(EncoderLayer):
    """Encoder layer with linear attention."""

    def build_self_attention(self, embed_dim: int, cfg: TransformerConfig) -> LinearAttention:
        return LinearAttention(
            embed_dim,
            cfg.encoder.attention_heads,
            self_attention=True,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )
