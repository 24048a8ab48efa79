"""fairseq's Transformer encoder over the layers of the baselines."""

from fairseq_odeformers.models.common.transformer import Encoder

from .layers import OrthogonalEncoderLayer, PlainEncoderLayer, ReZeroEncoderLayer


class PlainEncoder(Encoder):
    """fairseq's Transformer encoder over layers without LayerNorm."""

    layer_class = PlainEncoderLayer


class ReZeroEncoder(Encoder):
    """fairseq's Transformer encoder over ReZero layers."""

    layer_class = ReZeroEncoderLayer


class OrthogonalEncoder(Encoder):
    """fairseq's Transformer encoder over layers whose matrices are orthogonal."""

    layer_class = OrthogonalEncoderLayer
