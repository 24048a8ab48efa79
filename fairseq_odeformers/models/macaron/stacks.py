"""fairseq's Transformer encoder and decoder, and its RoBERTa encoder, over Macaron layers."""

from argparse import Namespace

import torch
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaEncoder
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from fairseq_odeformers.models.common.transformer import Decoder, Encoder

from .layer import MacaronDecoderLayer, MacaronEncoderLayer


class MacaronEncoder(Encoder):
    """fairseq's Transformer encoder over Macaron layers."""

    layer_class = MacaronEncoderLayer


class MacaronDecoder(Decoder):
    """fairseq's Transformer decoder over Macaron layers."""

    layer_class = MacaronDecoderLayer

    def upgrade_state_dict_named(
        self, state_dict: dict[str, Tensor], name: str
    ) -> dict[str, Tensor]:
        # fairseq drops the final LayerNorm of decoders up to version 2; the authors' has one.
        if f"{name}.layer_norm.weight" in state_dict:
            state_dict[f"{name}.version"] = torch.Tensor([3])
        return super().upgrade_state_dict_named(state_dict, name)


class MacaronBertEncoder(RobertaEncoder):
    """fairseq's RoBERTa encoder over Macaron layers."""

    def build_encoder(
        self, args: Namespace, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> MacaronEncoder:
        encoder = MacaronEncoder(TransformerConfig.from_namespace(args), dictionary, embed_tokens)
        return encoder.apply(init_bert_params)
