"""fairseq's encoders, of its Transformer and of its RoBERTa, over Macaron layers."""

from argparse import Namespace

from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaEncoder
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import nn

from fairseq_odeformers.models.common.transformer import Encoder

from .layer import MacaronEncoderLayer


class MacaronEncoder(Encoder):
    """fairseq's Transformer encoder over Macaron layers."""

    layer_class = MacaronEncoderLayer


class MacaronBertEncoder(RobertaEncoder):
    """fairseq's RoBERTa encoder over Macaron layers."""

    def build_encoder(
        self, args: Namespace, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> MacaronEncoder:
        encoder = MacaronEncoder(TransformerConfig.from_namespace(args), dictionary, embed_tokens)
        return encoder.apply(init_bert_params)
