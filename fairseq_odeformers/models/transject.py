"""TransJect (Sengupta et al. 2023): injective layers whose time is linear in the length."""

import logging
from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoder, register_model, register_model_architecture
from fairseq.modules import SinusoidalPositionalEmbedding
import torch
from torch import nn

from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices, OrthonormalEmbedding
from fairseq_odeformers.modules.transject_layer import (
    GATES,
    Eigenvalues,
    RandomEigenvalues,
    TransJectLayer,
)

from .sequence_classifier import SequenceClassifier, SequenceClassifierConfig

logger = logging.getLogger(__name__)


@dataclass
class TransJectConfig(SequenceClassifierConfig):
    """The defaults are the paper's model for IMDb and AG News (appendix B.1)."""

    encoder_embed_dim: int = field(default=512, metadata={"help": "width d; even"})
    encoder_layers: int = field(default=6, metadata={"help": "number L of layers"})
    encoder_experts: int = field(default=4, metadata={"help": "number E of experts of a layer"})
    residual_gate: ChoiceEnum(list(GATES)) = field(
        default="tanh", metadata={"help": "keeps the residual weights below 1"}
    )
    pooled_layer_norm: bool = field(
        default=False, metadata={"help": "apply layernorm to the pooled states"}
    )


class TransJectEncoder(FairseqEncoder):
    """X_0 is the embedding beside the position, each of width d/2; then L layers.

    Without gradient in use the orthogonal matrices are made once.
    """

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(dictionary)
        width, layers = cfg.encoder_embed_dim, cfg.encoder_layers
        self.padding_idx = dictionary.pad()
        self.max_source_positions = cfg.max_source_positions
        self.embed_tokens = embed_tokens
        self.embed_positions = SinusoidalPositionalEmbedding(
            width // 2, self.padding_idx, cfg.max_source_positions + self.padding_idx + 1
        )
        self.per_layer = 2 * cfg.encoder_experts + 2
        self.orthogonal = OrthogonalMatrices(1 + layers * self.per_layer, width)
        self.eigenvalues = self.build_eigenvalues(width)
        self.layers = nn.ModuleList(
            TransJectLayer(width, layers, cfg.residual_gate) for _ in range(layers)
        )

    def build_eigenvalues(self, embed_dim):
        return Eigenvalues()

    def forward(self, src_tokens, src_lengths=None):
        """
        Args:
            src_tokens: tokens (B, T).

        Returns:
            What fairseq's Transformer encoder returns, and ``regularizers``.
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        x = torch.cat([self.embed_tokens(src_tokens), self.embed_positions(src_tokens)], dim=-1)
        x = x.masked_fill(padding_mask.unsqueeze(-1), 0.0)
        rotation, *matrices = self.orthogonal().split([1] + [self.per_layer] * len(self.layers))
        sigma, regularizers = self.eigenvalues(x, rotation[0])
        for layer, own in zip(self.layers, matrices):
            x = layer(x, sigma, own, padding_mask)
        return {
            "encoder_out": [x.transpose(0, 1)],
            "encoder_padding_mask": [padding_mask],
            "regularizers": regularizers,
        }

    def max_positions(self):
        return self.max_source_positions


class RandomTransJectEncoder(TransJectEncoder):
    """TransJect with learnt numbers, random at the start, in the place of the eigenvalues."""

    def build_eigenvalues(self, embed_dim):
        return RandomEigenvalues(embed_dim)


@register_model("transject", dataclass=TransJectConfig)
class TransJect(SequenceClassifier):
    """TransJect as a classifier."""

    encoder_class = TransJectEncoder

    @classmethod
    def build_embedding(cls, cfg, dictionary):
        return OrthonormalEmbedding(len(dictionary), cfg.encoder_embed_dim // 2, dictionary.pad())

    @classmethod
    def check_config(cls, cfg):
        super().check_config(cfg)
        check_config(cfg, "encoder")


@register_model("transject_random", dataclass=TransJectConfig)
class RandomTransJect(TransJect):
    """Random-TransJect as a classifier."""

    encoder_class = RandomTransJectEncoder


def check_config(cfg, side: str):
    """Refuse what cannot be built, and warn if the layers may not be injective.

    Raises:
        ValueError: it names the option, its value and the remedy.
    """
    width, layers, experts = (cfg[f"{side}_{n}"] for n in ("embed_dim", "layers", "experts"))
    if width % 2:
        raise ValueError(
            f"--{side}-embed-dim {width}: embedding and position have half of it each; give an "
            "even number"
        )
    for name, value in (("layers", layers), ("experts", experts)):
        if value < 1:
            raise ValueError(f"--{side}-{name} {value}: give at least 1")
    if layers < 3:
        logger.warning(
            f"--{side}-layers {layers}: the paper proves that the layers are injective for 3 or "
            "more (Lemma 1)"
        )


@register_model_architecture("transject", "transject_lra")
@register_model_architecture("transject_random", "transject_lra_random")
def transject_lra(args):
    """The paper's model for the Long Range Arena; its text task has mean pooling."""
    args.encoder_layers = getattr(args, "encoder_layers", 2)
    args.pooling = getattr(args, "pooling", "max")
