"""TransJect's registered models: classifiers, causal language models, and their presets."""

from dataclasses import dataclass
from typing import Optional

from fairseq.data import Dictionary
from fairseq.models import register_model
from omegaconf import II, DictConfig

from fairseq_odeformers.models.common.language_model import (
    AdaptiveSoftmaxConfig,
    DecoderOnlyModel,
)
from fairseq_odeformers.models.common.sequence_classifier import (
    SequenceClassifier,
    SequenceClassifierConfig,
)
from fairseq_odeformers.modules.orthogonal import OrthonormalEmbedding
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import register_preset

from .decoder import RandomTransJectDecoder, TransJectDecoder
from .encoder import RandomTransJectEncoder, TransJectEncoder
from .layer import RESIDUAL_GATES

GATES = tuple(RESIDUAL_GATES)

# The paper's loss includes the reconstruction error of the eigenvalues, with a weight that the
# paper does not state. Only the criterions of this project add it.
REGULARIZER_WEIGHTS = {"reconstruction": 1e-4}


@dataclass
class TransJectConfig(SequenceClassifierConfig):
    """Options of the classifier; the defaults are the paper's for IMDb and AG News (app. B.1)."""

    encoder_embed_dim: int = option(512, "width", at_least=8, multiple_of=2)
    encoder_layers: int = option(6, "number of layers (the paper proves injectivity from 3)")
    encoder_experts: int = option(4, "number E of experts per layer")
    residual_gate: str = option(
        "tanh", "function that keeps residual weights below 1", choices=GATES
    )
    pooled_layer_norm: bool = option(False, "apply LayerNorm to the pooled states")


@dataclass
class TransJectLanguageModelConfig(AdaptiveSoftmaxConfig):
    """Options of the language model; the defaults are the paper's for the Penn Treebank (B.1)."""

    decoder_embed_dim: int = option(512, "width", at_least=8, multiple_of=2)
    decoder_layers: int = option(6, "number of layers")
    decoder_experts: int = option(4, "number E of experts per layer")
    residual_gate: str = option(
        "tanh", "function that keeps residual weights below 1", choices=GATES
    )
    tokens_per_sample: int = II("task.tokens_per_sample")
    max_target_positions: Optional[int] = II("task.max_target_positions")


@register_model("transject", dataclass=TransJectConfig)
class TransJect(SequenceClassifier):
    """Encoder with orthogonal attention and a mixture of experts, linear in the length."""

    encoder_class = TransJectEncoder
    embedding_class = OrthonormalEmbedding
    regularizer_weights = REGULARIZER_WEIGHTS

    @staticmethod
    def activation_bound(layers: int) -> float:
        """Return the upper bound on how much the layers stretch a distance (Theorem 2)."""
        return (1 + 3 / layers) ** (2 * layers)

    @classmethod
    def embedding_dim(cls, cfg: TransJectConfig) -> int:
        return cfg.encoder_embed_dim // 2


@register_model("transject_random", dataclass=TransJectConfig)
class RandomTransJect(TransJect):
    """TransJect's encoder with learned numbers in place of eigenvalues (Random-TransJect)."""

    encoder_class = RandomTransJectEncoder
    regularizer_weights = {}


@register_model("transject_lm", dataclass=TransJectLanguageModelConfig)
class TransJectLanguageModel(DecoderOnlyModel):
    """Causal TransJect: each token sees sums and maxima over the tokens up to itself."""

    decoder_class = TransJectDecoder
    regularizer_weights = REGULARIZER_WEIGHTS

    @classmethod
    def build_embedding(cls, cfg: DictConfig, dictionary: Dictionary) -> OrthonormalEmbedding:
        return OrthonormalEmbedding(len(dictionary), cfg.decoder_embed_dim // 2, dictionary.pad())


@register_model("transject_lm_random", dataclass=TransJectLanguageModelConfig)
class RandomTransJectLanguageModel(TransJectLanguageModel):
    """Causal TransJect with learned numbers in place of eigenvalues (Random-TransJect)."""

    decoder_class = RandomTransJectDecoder
    regularizer_weights = {}


# The paper's model for the Long Range Arena; its text task needs --pooling mean.
register_preset("transject", "transject_lra", encoder_layers=2, pooling="max")
register_preset("transject_random", "transject_lra_random", encoder_layers=2, pooling="max")
