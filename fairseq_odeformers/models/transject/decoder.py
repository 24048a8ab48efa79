"""TransJect's causal decoder (not in the paper)."""

from typing import Any

from fairseq.data import Dictionary
from fairseq.models import FairseqIncrementalDecoder
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_odeformers.models.common.language_model import adaptive_softmax
from fairseq_odeformers.modules.basics import LinearWithoutBias
from fairseq_odeformers.modules.incremental import IncrementalState
from fairseq_odeformers.modules.orthogonal import OrthonormalEmbedding

from .eigenvalues import Eigenvalues, RandomEigenvalues
from .embedding import ConcatenatedPositions
from .layer import TransJectLayer, alpha_statistics
from .spec import LayerSpec


class TransJectDecoder(FairseqIncrementalDecoder):
    """A causal decoder: each token sees sums and maxima over the tokens up to itself.

    The cache for generation therefore has a constant size: it contains one sum, and one maximum per
    layer and expert, each of width C.
    """

    spec_class = LayerSpec
    layer_class = TransJectLayer
    eigenvalues_class: type[Eigenvalues | RandomEigenvalues] = Eigenvalues

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: OrthonormalEmbedding):
        super().__init__(dictionary)
        spec = self.spec_class.from_options(cfg, "decoder")
        self.padding_idx = dictionary.pad()
        self.max_target_positions = cfg.max_target_positions
        self.embedding = ConcatenatedPositions(
            embed_tokens, len(embed_tokens.weight), self.max_target_positions
        )
        self.eigenvalues = self.eigenvalues_class(spec.embed_dim, causal=True)
        self.layers = nn.ModuleList(self.layer_class(spec, causal=True) for _ in range(spec.layers))
        if cfg.adaptive_softmax_cutoff is None:
            self.output_projection = LinearWithoutBias(spec.embed_dim, len(dictionary))
            nn.init.normal_(self.output_projection.weight, std=spec.embed_dim**-0.5)
        else:
            self.adaptive_softmax = adaptive_softmax(cfg, spec.embed_dim, dictionary)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: None = None,
        incremental_state: IncrementalState = None,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        **unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Map tokens (B, T) to scores (B, T, V).

        Args:
            prev_output_tokens: tokens (B, T); with an incremental state, only the last is read.
            features_only: whether to return the states (B, T, C) of the last layer, not scores.
            return_all_hiddens: whether to return X_0 and the output of each layer as well.

        Returns:
            Scores (B, T, V), or (B, 1, V) with an incremental state; and a dictionary with
            ``regularizers``, ``statistics`` (alpha of each layer), ``inner_states`` and, for
            fairseq's generator, ``attn``.
        """
        x = self.embedding(prev_output_tokens, incremental_state)
        padding_mask = prev_output_tokens[:, -x.size(1) :].eq(self.padding_idx)
        sigma, regularizers = self.eigenvalues(x, incremental_state)
        states = [x]
        for layer in self.layers:
            x = layer(x, sigma, padding_mask, incremental_state)
            states = [*states, x] if return_all_hiddens else []
        inner_states = [x.transpose(0, 1) for x in states]  # (T, B, C)
        extra = {
            "attn": [None],
            "inner_states": inner_states,
            "regularizers": regularizers,
            "statistics": alpha_statistics("decoder", self.layers, x.size(0)),
        }
        return x if features_only else self.output_layer(x), extra

    def extract_features(
        self, prev_output_tokens: Tensor, **kwargs: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        return self(prev_output_tokens, features_only=True, **kwargs)

    def output_layer(self, features: Tensor, **unused: Any) -> Tensor:
        """Return scores (B, T, V), or the states (B, T, C) if adaptive softmax computes them."""
        return features if self.adaptive_softmax else self.output_projection(features)

    def layer_states(self, output: tuple[Tensor, dict[str, Any]]) -> list[Tensor]:
        """Return X_0 and the output of each layer (T, B, C)."""
        return output[1]["inner_states"]

    def max_positions(self) -> int:
        return self.max_target_positions


class RandomTransJectDecoder(TransJectDecoder):
    """The decoder of Random-TransJect."""

    eigenvalues_class = RandomEigenvalues
