"""fairseq's encoder and decoder with their layers as a vector field."""

from torch import nn

from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths, join_layers
from fairseq_odeformers.models.common.transformer import Config, Decoder, Encoder

from .block import FlowBlock, FlowDecoderBlock
from .layer import FieldDecoderLayer, FieldEncoderLayer
from .spec import FlowSpec


class FlowStack(nn.Module):
    """Mixin for an encoder or decoder that joins the layers built by fairseq into one block.

    ``--final-norm`` puts the last LayerNorm into the block, into the stack, or nowhere.
    """

    spec_class = FlowSpec
    spec: FlowSpec
    block_class: type[FlowBlock]
    layers: nn.ModuleList

    def __init__(self, cfg: Config, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        join_layers(self, self.block_class(self.layers, self.spec))
        if self.spec.final_norm != "state":
            self.layer_norm = None


class OTEncoder(EncoderOfDepths, FlowStack, Encoder):
    """fairseq's encoder as a flow."""

    layer_class = FieldEncoderLayer
    block_class = FlowBlock


class OTDecoder(DecoderOfDepths, FlowStack, Decoder):
    """fairseq's decoder, of a translator or a language model, as a flow."""

    layer_class = FieldDecoderLayer
    block_class = FlowDecoderBlock
