"""TransJect (Sengupta et al. 2023) as a causal language model."""

from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqIncrementalDecoder, FairseqLanguageModel, register_model
from omegaconf import II
from torch import nn

from fairseq_odeformers.modules.linear import LinearWithoutBias
from fairseq_odeformers.modules.orthogonal import OrthonormalEmbedding
from fairseq_odeformers.options import option

from .classifier import ResidualGate, check_config, embed_scale
from .layer import (
    REGULARIZER_WEIGHTS,
    ConcatenatedPositions,
    Eigenvalues,
    RandomEigenvalues,
    TransJectLayer,
)
from .token_statistics import CausalStatistics


@dataclass
class TransJectLanguageModelConfig(FairseqDataclass):
    """The defaults are the paper's model for the Penn Treebank (appendix B.1)."""

    decoder_embed_dim: int = option(512, "width d, an even number")
    decoder_layers: int = option(6, "number L of layers")
    decoder_experts: int = option(4, "number E of experts of a layer")
    residual_gate: ResidualGate = option("tanh", "keeps the residual weights below 1")
    tokens_per_sample: int = II("task.tokens_per_sample")
    max_target_positions: Optional[int] = II("task.max_target_positions")


class TransJectDecoder(FairseqIncrementalDecoder):
    """Each token sees sums and maxima over the tokens up to it, and so none after it.

    Generation keeps these: a sum, and a maximum a layer and expert, each of width d, whatever the
    length.
    """

    eigenvalues_class = Eigenvalues

    def __init__(self, cfg, dictionary, input_dictionary):
        super().__init__(dictionary)
        width, layers = cfg.decoder_embed_dim, cfg.decoder_layers
        self.padding_idx = dictionary.pad()
        self.max_target_positions = cfg.max_target_positions or cfg.tokens_per_sample
        embed_tokens = OrthonormalEmbedding(len(input_dictionary), width // 2, self.padding_idx)
        scale = embed_scale(len(input_dictionary), width // 2)
        self.embedding = ConcatenatedPositions(embed_tokens, scale, self.max_target_positions)
        self.eigenvalues = self.eigenvalues_class(width, CausalStatistics)
        self.layers = nn.ModuleList(
            TransJectLayer(width, cfg.decoder_experts, layers, cfg.residual_gate, CausalStatistics)
            for _ in range(layers)
        )
        self.output_projection = LinearWithoutBias(width, len(dictionary))
        nn.init.normal_(self.output_projection.weight, std=width**-0.5)

    def forward(
        self,
        prev_output_tokens,
        encoder_out=None,
        incremental_state=None,
        return_all_hiddens=False,
        **unused,
    ):
        """
        Args:
            prev_output_tokens: tokens (B, T); with an incremental state only the last is read.
            return_all_hiddens: return X_0 and the output of each layer, too.

        Returns:
            Scores (B, T, V), or (B, 1, V) with an incremental state; and a dictionary with
            ``regularizers``, ``inner_states`` and, as fairseq's generator asks for it, ``attn``.
        """
        x, extra = self.extract_features(
            prev_output_tokens,
            incremental_state=incremental_state,
            return_all_hiddens=return_all_hiddens,
        )
        return self.output_layer(x), extra

    def extract_features(
        self, prev_output_tokens, incremental_state=None, return_all_hiddens=False, **unused
    ):
        """States (B, T, C) of the last layer, and the dictionary of :meth:`forward`."""
        x = self.embedding(prev_output_tokens, incremental_state)
        padding_mask = prev_output_tokens[:, -x.size(1) :].eq(self.padding_idx)
        sigma, regularizers = self.eigenvalues(x, incremental_state)
        states = [x]
        for layer in self.layers:
            x = layer(x, sigma, padding_mask, incremental_state)
            states = [*states, x] if return_all_hiddens else []
        inner_states = [x.transpose(0, 1) for x in states]
        extra = {"attn": [None], "inner_states": inner_states, "regularizers": regularizers}
        return x, extra

    def output_layer(self, features, **unused):
        """Scores (B, T, V) of states (B, T, C)."""
        return self.output_projection(features)

    def max_positions(self):
        return self.max_target_positions


class RandomTransJectDecoder(TransJectDecoder):
    """TransJect with a learnt vector, random at the start, in the place of the eigenvalues."""

    eigenvalues_class = RandomEigenvalues


@register_model("transject_lm", dataclass=TransJectLanguageModelConfig)
class TransJectLanguageModel(FairseqLanguageModel):
    """TransJect as a language model."""

    decoder_class = TransJectDecoder
    regularizer_weights = REGULARIZER_WEIGHTS

    @classmethod
    def build_model(cls, cfg, task):
        check_config(cfg, "decoder")
        return cls(cls.decoder_class(cfg, task.target_dictionary, task.source_dictionary))


@register_model("transject_lm_random", dataclass=TransJectLanguageModelConfig)
class RandomTransJectLanguageModel(TransJectLanguageModel):
    """Random-TransJect as a language model."""

    decoder_class = RandomTransJectDecoder
    regularizer_weights = {}
