"""TransJect (Sengupta et al. 2023): injective layers whose time is linear in the length."""

import math
from dataclasses import dataclass

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoder, register_model, register_model_architecture
from torch import nn

from fairseq_odeformers.models.common.sequence_classifier import (
    SequenceClassifier,
    SequenceClassifierConfig,
)
from fairseq_odeformers.modules.orthogonal import OrthonormalEmbedding
from fairseq_odeformers.options import at_least_one, option, side

from .layer import (
    GATES,
    REGULARIZER_WEIGHTS,
    ConcatenatedPositions,
    Eigenvalues,
    RandomEigenvalues,
    TransJectLayer,
)

ResidualGate = ChoiceEnum(list(GATES))


@dataclass
class TransJectConfig(SequenceClassifierConfig):
    """The defaults are the paper's model for IMDb and AG News (appendix B.1)."""

    encoder_embed_dim: int = option(512, "width d, an even number")
    encoder_layers: int = option(
        6, "number L of layers; that they are injective is proved for 3 or more (Lemma 1)"
    )
    encoder_experts: int = option(4, "number E of experts of a layer")
    residual_gate: ResidualGate = option("tanh", "keeps the residual weights below 1")
    pooled_layer_norm: bool = option(False, "apply layernorm to the pooled states")


class TransJectEncoder(FairseqEncoder):
    """Embeddings beside positions, each of width d/2; then L layers, which share eigenvalues."""

    eigenvalues_class = Eigenvalues

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(dictionary)
        width, layers = cfg.encoder_embed_dim, cfg.encoder_layers
        self.padding_idx = dictionary.pad()
        self.max_source_positions = cfg.max_source_positions
        scale = embed_scale(len(dictionary), width // 2)
        self.embedding = ConcatenatedPositions(embed_tokens, scale, cfg.max_source_positions)
        self.eigenvalues = self.eigenvalues_class(width)
        self.layers = nn.ModuleList(
            TransJectLayer(width, cfg.encoder_experts, layers, cfg.residual_gate)
            for _ in range(layers)
        )

    def forward(self, src_tokens, src_lengths=None, return_all_hiddens=False):
        """
        Args:
            src_tokens: tokens (B, T).
            return_all_hiddens: return X_0 and the output of each layer, too.

        Returns:
            What fairseq's Transformer encoder returns, and ``regularizers``.
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        x = self.embedding(src_tokens)
        sigma, regularizers = self.eigenvalues(x)
        compiled = src_tokens.device.type == "xla" or torch.compiler.is_compiling()
        mask = padding_mask if compiled or padding_mask.any() else None
        states = [x]
        for layer in self.layers:
            x = layer(x, sigma, mask)
            states = [*states, x] if return_all_hiddens else [x]
        states = [x.transpose(0, 1) for x in states]
        return {
            "encoder_out": states[-1:],
            "encoder_padding_mask": [padding_mask],
            "encoder_states": states if return_all_hiddens else [],
            "regularizers": regularizers,
        }

    def max_positions(self):
        return self.max_source_positions


class RandomTransJectEncoder(TransJectEncoder):
    """TransJect with a learnt vector, random at the start, in the place of the eigenvalues."""

    eigenvalues_class = RandomEigenvalues


@register_model("transject", dataclass=TransJectConfig)
class TransJect(SequenceClassifier):
    """TransJect as a classifier."""

    encoder_class = TransJectEncoder
    embedding_class = OrthonormalEmbedding
    regularizer_weights = REGULARIZER_WEIGHTS

    @classmethod
    def embedding_dim(cls, cfg):
        return cfg.encoder_embed_dim // 2

    @classmethod
    def check_config(cls, cfg):
        super().check_config(cfg)
        check_config(cfg, "encoder")


@register_model("transject_random", dataclass=TransJectConfig)
class RandomTransJect(TransJect):
    """Random-TransJect as a classifier."""

    encoder_class = RandomTransJectEncoder
    regularizer_weights = {}


def embed_scale(num_embeddings: int, embedding_dim: int) -> float:
    """The factor that makes 1 the variance of the entries of a random orthonormal matrix.

    The paper has none. But of 30,000 symbols the entries are about 0.006, those of positions 0.7,
    and a classifier learns many times more slowly.
    """
    return math.sqrt(max(num_embeddings, embedding_dim))


def check_config(cfg, name: str):
    """Refuse what cannot be built.

    Args:
        name: ``encoder`` or ``decoder``, the start of the options' names.

    Raises:
        ValueError: it names the option, its value and the remedy.
    """
    width = side(cfg, name).embed_dim
    if width < 8 or width % 2:
        raise ValueError(
            f"--{name}-embed-dim {width}: embedding and position have half of it each; give an "
            "even number from 8"
        )
    at_least_one(cfg, f"{name}_layers", f"{name}_experts")


@register_model_architecture("transject", "transject_lra")
@register_model_architecture("transject_random", "transject_lra_random")
def transject_lra(args):
    """The paper's model for the Long Range Arena; for its text task give ``--pooling mean``."""
    args.encoder_layers = getattr(args, "encoder_layers", 2)
    args.pooling = getattr(args, "pooling", "max")
