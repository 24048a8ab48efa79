"""A protocol: questions that modules answer for analysis, export and regularisers.

A question is the name of a method. A module that has the method answers for all of its submodules.
Otherwise, each submodule is asked. The adapters in this file answer for fairseq's modules, so a
family answers only for its other layers.

- ``attention_maps(...)``, called with the arguments of ``forward``, yields the
  :class:`AttentionMaps` of each attention in that call.
- ``layer_parts(...)``, called with these arguments, yields the :class:`LayerParts` of each layer.
- ``projections()`` yields the :class:`Projections` of each self-attention at each depth.
- ``residual_weights()`` returns the learned weights of residual connections, tensors (1) by name.
- ``layer_states(output)`` returns the states X_0, ..., X_L (T, B, C) from the output of an encoder
  or decoder that was called with ``return_all_hiddens``.
- ``for_export()`` returns the module, or a replacement with the same results, in a form without
  data-dependent control flow. Its submodules are asked first. A ValueError names the options that
  rule this out.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.models import FairseqEncoder, FairseqIncrementalDecoder
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules import (
    LearnedPositionalEmbedding,
    MultiheadAttention,
    SinusoidalPositionalEmbedding,
)
from torch import Tensor, nn

from fairseq_odeformers.modules.incremental import IncrementalState

POSITION = "position"  # entry of an incremental state: the number of tokens before the newest


class AttentionMaps(NamedTuple):
    """The maps of an attention at each of its depths.

    Attributes:
        weights: distributions over the keys (L, B, H, T, S).
        cross: whether the keys come from the encoder.
        first: number of the first depth: 1, or 0 for a block that also has a map at its start.
        bias: bias of the keys (B, H, S, L), or None.
    """

    weights: Tensor
    cross: bool = False
    first: int = 1
    bias: Tensor | None = None


class LayerParts(NamedTuple):
    """The states that the parts of a layer compute for one text.

    Attributes:
        states: output of each attention head (H, T, C/H) before the output projection, or state
            of each expert (E, T, C).
        weights: weights of the experts (E).
    """

    states: Tensor
    weights: Tensor | None = None


class Projections(NamedTuple):
    """The projections of a self-attention at one depth; rows are outputs, as in torch.

    Attributes:
        heads: number H of heads.
        pairs: W_Q and W_K (D, C) under the name ``QK``, and W_O^T and W_V (C, C) under ``OV``. The
            heads divide the rows of each.
    """

    heads: int
    pairs: dict[str, tuple[Tensor, Tensor]]

    @classmethod
    def of(cls, heads: int, q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> "Projections":
        """Make projections from the weights W_Q, W_K (D, C), W_V and W_O (C, C)."""
        return cls(heads, {"QK": (q, k), "OV": (out.T, v)})


def ask(module: nn.Module, question: str) -> dict[nn.Module, Callable[..., Any]]:
    """Find the modules that answer a question, *module* or parts of it, with their methods."""
    if answer := find_answer(module, question):
        return {module: answer}
    return {
        part: answer for child in module.children() for part, answer in ask(child, question).items()
    }


def find_answer(module: nn.Module, question: str) -> Callable[..., Any] | None:
    """Return the method of a module, or of its adapter if it is fairseq's, or None."""
    adapters = (adapter(module) for kind, adapter in ADAPTERS.items() if isinstance(module, kind))
    answers = (getattr(respondent, question, None) for respondent in (module, *adapters))
    return next(filter(None, answers), None)


# --- fairseq's modules -----------------------------------------------------


class OfAttention(NamedTuple):
    """The answers of fairseq's attention."""

    module: MultiheadAttention

    def attention_maps(self, *args: Any, **kwargs: Any) -> Iterator[AttentionMaps]:
        # Without static_kv, fairseq calls torch's function and gets the mean over the heads.
        options = {**kwargs, "static_kv": True, "need_head_weights": True}
        _, weights = self.module(*args, **options)  # (H, B, T, S)
        cross = self.module.encoder_decoder_attention
        yield AttentionMaps(weights.transpose(0, 1).unsqueeze(0), cross)

    def layer_parts(self, *, query: Tensor, **unused: Any) -> Iterator[LayerParts]:
        x, module = query.transpose(0, 1), self.module
        q, k, v = (
            project(x).unflatten(-1, (module.num_heads, -1)).transpose(1, 2)
            for project in (module.q_proj, module.k_proj, module.v_proj)
        )
        yield LayerParts(F.scaled_dot_product_attention(q, k, v)[0])

    def projections(self) -> Iterator[Projections]:
        if not self.module.encoder_decoder_attention:
            maps = (getattr(self.module, f"{name}_proj") for name in ("q", "k", "v", "out"))
            yield Projections.of(self.module.num_heads, *(linear.weight for linear in maps))


class OfEncoder(NamedTuple):
    """The answers of fairseq's Transformer encoder, over any layers."""

    module: TransformerEncoderBase

    def layer_states(self, output: dict[str, Any]) -> list[Tensor]:
        return output["encoder_states"]

    def for_export(self) -> nn.Module:
        return PaddedEncoder(self.module)


class OfDecoder(NamedTuple):
    """The answers of fairseq's Transformer decoder, over any layers."""

    module: TransformerDecoderBase

    def layer_states(self, output: tuple[Tensor, dict[str, Any]]) -> list[Tensor]:
        return output[1]["inner_states"]

    def for_export(self) -> nn.Module:
        return PaddedDecoder(self.module)


class OfSinusoids(NamedTuple):
    """The answers of fairseq's sinusoidal positions."""

    module: SinusoidalPositionalEmbedding

    def for_export(self) -> nn.Module:
        """Return positions with all rows; fairseq adds the last rows when a text needs them."""
        padding, width = self.module.padding_idx, self.module.embedding_dim
        rows = len(self.module.weights) + padding + 1
        return Positions(self.module.get_embedding(rows, width, padding), padding)


class OfLearnedPositions(NamedTuple):
    """The answers of fairseq's learned positions."""

    module: LearnedPositionalEmbedding

    def for_export(self) -> nn.Module:
        return Positions(self.module.weight.detach(), self.module.padding_idx)


ADAPTERS: dict[type[nn.Module], Callable[[Any], Any]] = {
    MultiheadAttention: OfAttention,
    TransformerEncoderBase: OfEncoder,
    TransformerDecoderBase: OfDecoder,
    SinusoidalPositionalEmbedding: OfSinusoids,
    LearnedPositionalEmbedding: OfLearnedPositions,
}


class PaddedEncoder(FairseqEncoder):
    """fairseq's Transformer encoder over any layers, always with a padding mask.

    fairseq only passes a mask if there is padding; without any, the mask changes nothing.
    """

    def __init__(self, encoder: TransformerEncoderBase):
        super().__init__(encoder.dictionary)
        self.encoder = encoder

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused
    ) -> dict[str, list[Tensor]]:
        """Map tokens (B, T) to states (T, B, C) and a padding mask (B, T), in fairseq's form."""
        padding_mask = src_tokens.eq(self.encoder.padding_idx)
        x, _ = self.encoder.forward_embedding(src_tokens)
        x = (x * (1 - padding_mask.unsqueeze(-1).type_as(x))).transpose(0, 1)
        for layer in self.encoder.layers:
            out = layer(x, encoder_padding_mask=padding_mask)
            x = out[0] if isinstance(out, tuple) else out
        if self.encoder.layer_norm is not None:
            x = self.encoder.layer_norm(x)
        return {"encoder_out": [x], "encoder_padding_mask": [padding_mask]}


class PaddedDecoder(FairseqIncrementalDecoder):
    """fairseq's Transformer decoder over any layers, for texts with padding only at their end.

    fairseq masks padding in self-attention if there is any. Causal attention does not need this
    mask, since padding at the end comes after all other tokens.
    """

    def __init__(self, decoder: TransformerDecoderBase):
        super().__init__(decoder.dictionary)
        self.decoder = decoder

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]] | None = None,
        incremental_state: IncrementalState = None,
        **unused,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Map tokens (B, T) to scores (B, T, V) or, with an incremental state, (B, 1, V).

        Args:
            encoder_out: the encoder's output in fairseq's form; None in a language model.
            incremental_state: state with the entry :data:`POSITION`.
        """
        decoder, tokens = self.decoder, prev_output_tokens
        positions = decoder.embed_positions
        if positions is not None:
            positions = positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
        x = decoder.embed_scale * decoder.embed_tokens(tokens)
        if decoder.project_in_dim is not None:
            x = decoder.project_in_dim(x)
        if positions is not None:
            x = x + positions
        if decoder.layernorm_embedding is not None:
            x = decoder.layernorm_embedding(x)
        x = x.transpose(0, 1)
        masks = {}
        if incremental_state is None:
            masks["self_attn_mask"] = x.new_full((x.size(0), x.size(0)), -torch.inf).triu(1)
        if decoder.cross_self_attention:  # self-attention also sees the source, with its padding
            masks["self_attn_padding_mask"] = tokens.eq(decoder.padding_idx)
        source = [(encoder_out or {}).get(f"encoder_{name}") for name in ("out", "padding_mask")]
        source = [parts[0] if parts else None for parts in source]
        for layer in decoder.layers:
            x, *_ = layer(x, *source, incremental_state, **masks)
        if decoder.layer_norm is not None:
            x = decoder.layer_norm(x)
        x = x.transpose(0, 1)
        if decoder.project_out_dim is not None:
            x = decoder.project_out_dim(x)
        return decoder.output_layer(x), {}

    def get_normalized_probs(self, *args, **kwargs) -> Tensor:
        """Return the decoder's probabilities (B, T, V), from its adaptive softmax if it has one."""
        return self.decoder.get_normalized_probs(*args, **kwargs)

    def max_positions(self) -> int:
        return self.decoder.max_positions()


class Positions(nn.Module):
    """fairseq's sinusoidal or learned positions, without control flow that depends on sizes.

    Args:
        weights: embeddings: first the row for padding, then the row for the first token, and so on.
        padding: index of padding in the dictionary.
    """

    weights: Tensor

    def __init__(self, weights: Tensor, padding: int):
        super().__init__()
        self.padding = padding
        self.register_buffer("weights", weights)

    def forward(self, tokens: Tensor, incremental_state: IncrementalState = None) -> Tensor:
        """Return embeddings (B, T, C) for tokens (B, T).

        With an incremental state, return only the embedding (B, 1, C) for the token at
        :data:`POSITION`.
        """
        if incremental_state is None:
            return F.embedding(utils.make_positions(tokens, self.padding), self.weights)
        position = incremental_state[POSITION][POSITION]
        assert position is not None
        row = F.embedding(position + self.padding + 1, self.weights)
        return row.expand(tokens.size(0), 1, -1)
