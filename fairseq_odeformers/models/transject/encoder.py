"""TransJect's encoder: an embedding of tokens (X_0), eigenvalues computed once, and the layers."""

from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from omegaconf import DictConfig
from torch import Tensor, nn

from .eigenvalues import Eigenvalues, RandomEigenvalues
from .embedding import ConcatenatedPositions, TokenEmbedding
from .layer import TransJectLayer, alpha_statistics
from .spec import LayerSpec


class TransJectEncoder(FairseqEncoder):
    """Embeddings next to positions, each of width C/2, then L layers that share eigenvalues."""

    spec_class = LayerSpec
    layer_class = TransJectLayer
    eigenvalues_class: type[Eigenvalues | RandomEigenvalues] = Eigenvalues

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, embed_tokens: TokenEmbedding):
        super().__init__(dictionary)
        spec = self.spec_class.from_options(cfg, "encoder")
        self.padding_idx = dictionary.pad()
        self.max_source_positions = cfg.max_source_positions
        self.embedding = ConcatenatedPositions(
            embed_tokens, len(dictionary), self.max_source_positions
        )
        self.eigenvalues = self.eigenvalues_class(spec.embed_dim)
        self.layers = nn.ModuleList(self.layer_class(spec) for _ in range(spec.layers))

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
    ) -> dict[str, Any]:
        """Map tokens (B, T) to states (T, B, C) in fairseq's form.

        Args:
            src_tokens: tokens (B, T).
            return_all_hiddens: whether to return X_0 and the output of each layer as well.

        Returns:
            The dictionary of fairseq's Transformer encoder with two more entries: ``regularizers``,
            and ``statistics`` with alpha of each layer and the mean of sigma. The mean is 1 if all
            eigenvalues are equal, and 1/C if only one eigenvalue is not 0.
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
        states = [x.transpose(0, 1) for x in states]  # (T, B, C)
        statistics = alpha_statistics("encoder", self.layers, x.size(0))
        statistics["encoder_sigma"] = sigma.mean((1, 2)).expand(x.size(0))
        return {
            "encoder_out": states[-1:],
            "encoder_padding_mask": [padding_mask],
            "encoder_states": states if return_all_hiddens else [],
            "regularizers": regularizers,
            "statistics": statistics,
        }

    def layer_states(self, output: dict[str, Any]) -> list[Tensor]:
        """Return X_0 and the output of each layer (T, B, C)."""
        return output["encoder_states"]

    def max_positions(self) -> int:
        return self.max_source_positions


class RandomTransJectEncoder(TransJectEncoder):
    """The encoder of Random-TransJect."""

    eigenvalues_class = RandomEigenvalues
