"""fairseq's Transformer decoder over the layers of the baselines."""

from fairseq_odeformers.models.common.transformer import Decoder

from .layers import OrthogonalDecoderLayer, ReZeroDecoderLayer


class ReZeroDecoder(Decoder):
    """fairseq's Transformer decoder over ReZero layers."""

    layer_class = ReZeroDecoderLayer


class OrthogonalDecoder(Decoder):
    """fairseq's Transformer decoder over layers whose matrices are orthogonal."""

    layer_class = OrthogonalDecoderLayer
