"""TransJect's causal decoder, which is not in the paper: no token sees those after it."""

from fairseq.models import FairseqIncrementalDecoder
from torch import nn

from fairseq_odeformers.modules.linear import LinearWithoutBias

from .eigenvalues import Eigenvalues, RandomEigenvalues
from .embedding import ConcatenatedPositions
from .layer import TransJectLayer


class TransJectDecoder(FairseqIncrementalDecoder):
    """Each token sees sums and maxima over the tokens up to it, and so none after it.

    Generation keeps these: a sum, and a maximum a layer and expert, each of width d, whatever the
    length.
    """

    eigenvalues_class = Eigenvalues

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(dictionary)
        width, depth = cfg.decoder_embed_dim, cfg.decoder_layers
        self.padding_idx = dictionary.pad()
        self.max_target_positions = cfg.max_target_positions or cfg.tokens_per_sample
        self.embedding = ConcatenatedPositions(
            embed_tokens, len(embed_tokens.weight), self.max_target_positions
        )
        self.eigenvalues = self.eigenvalues_class(width, causal=True)
        self.layers = nn.ModuleList(
            TransJectLayer(width, cfg.decoder_experts, depth, cfg.residual_gate, causal=True)
            for _ in range(depth)
        )
        self.output_projection = LinearWithoutBias(width, len(dictionary))
        nn.init.normal_(self.output_projection.weight, std=width**-0.5)

    def forward(
        self,
        prev_output_tokens,
        encoder_out=None,
        incremental_state=None,
        features_only=False,
        return_all_hiddens=False,
        **unused,
    ):
        """
        Args:
            prev_output_tokens: tokens (B, T); with an incremental state only the last is read.
            features_only: return the states (B, T, C) of the last layer in place of scores.
            return_all_hiddens: return X_0 and the output of each layer, too.

        Returns:
            Scores (B, T, V), or (B, 1, V) with an incremental state; and a dictionary with
            ``regularizers``, ``inner_states`` and, for fairseq's generator, ``attn``.
        """
        x = self.embedding(prev_output_tokens, incremental_state)
        padding_mask = prev_output_tokens[:, -x.size(1) :].eq(self.padding_idx)
        sigma, regularizers = self.eigenvalues(x, incremental_state)
        states = [x]
        for layer in self.layers:
            x = layer(x, sigma, padding_mask, incremental_state)
            states = [*states, x] if return_all_hiddens else []
        inner_states = [x.transpose(0, 1) for x in states]
        extra = {"attn": [None], "inner_states": inner_states, "regularizers": regularizers}
        return x if features_only else self.output_layer(x), extra

    def extract_features(self, prev_output_tokens, **kwargs):
        return self(prev_output_tokens, features_only=True, **kwargs)

    def output_layer(self, features, **unused):
        return self.output_projection(features)

    def max_positions(self):
        return self.max_target_positions


class RandomTransJectDecoder(TransJectDecoder):
    """TransJect with a learnt vector, random at the start, in the place of the eigenvalues."""

    eigenvalues_class = RandomEigenvalues
