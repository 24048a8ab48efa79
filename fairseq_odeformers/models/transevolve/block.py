"""Blocks of TransEvolve (Dutta et al. 2021, section 6)."""

from collections.abc import Iterator, Sequence

import torch
from fairseq.modules import LayerNorm
from torch import Tensor, nn

from fairseq_odeformers.models.common.answers import AttentionMaps, LayerParts, Projections
from fairseq_odeformers.modules.attention import split_heads
from fairseq_odeformers.modules.basics import Dropout, LinearWithoutBias
from fairseq_odeformers.modules.incremental import Incremental, IncrementalState, Saved, append
from fairseq_odeformers.modules.transformer_layer import Block

from .attention import DirectAttention, TimeEvolvingAttention, merge_heads
from .feed_forward import FullFeedForward, RandomRotationFeedForward
from .spec import BlockSpec


class TransEvolveLayer(nn.Module):
    """Layer l of a block: W_o^l of its attention, FF^l, and their LayerNorms.

    The block computes the scores. In fairseq's stacks, an entire block replaces a layer.

    Args:
        number: l, from 1 to L.
        cross_attention: whether the layer also contains W_o^l for the cross-attention and, if
            options ask for them, maps of its values.
    """

    def __init__(self, spec: BlockSpec, number: int, cross_attention: bool):
        super().__init__()
        self.num_heads = spec.attention_heads
        self.self_attn_layer_norm = LayerNorm(spec.embed_dim)
        project = spec.self_attention_value_projection
        self.self_attn_value_proj = projection(spec.embed_dim) if project else nn.Identity()
        gain = 1 if spec.glorot else 2**-0.5
        self.self_attn_out_proj = projection(spec.embed_dim, gain)
        if cross_attention:
            self.encoder_attn_out_proj = projection(spec.embed_dim, gain)
            self.encoder_attn_value = nn.Sequential()
            if spec.cross_attention_value_norm:
                self.encoder_attn_value.add_module("layer_norm", LayerNorm(spec.embed_dim))
            if spec.cross_attention_value_projection:
                self.encoder_attn_value.add_module("proj", projection(spec.embed_dim))
        self.final_layer_norm = LayerNorm(spec.embed_dim)
        if spec.ffn_type == "full":
            self.feed_forward = FullFeedForward(spec)
        else:
            self.feed_forward = RandomRotationFeedForward(spec, number)
        self.dropout_module = Dropout(spec.dropout, type(self).__name__)

    def values(self, x: Tensor) -> Tensor:
        """Map X (B, T, C) to the heads of LN(X) (B, H, T, C/H), projected if options ask for it."""
        return split_heads(self.self_attn_value_proj(self.self_attn_layer_norm(x)), self.num_heads)

    def layer_parts(self, x: Tensor, attended: Tensor, *unused: Tensor) -> Iterator[LayerParts]:
        """Yield the outputs of the heads; for the arguments, see :meth:`forward`."""
        yield LayerParts(attended[0])

    def forward(self, x: Tensor, attended: Tensor, attended_source: Tensor | None = None) -> Tensor:
        """Return X^l = FF^l(LN(Y^l)) + Y^l (Eq. 11), with Y^l = A^l LN(X^(l-1)) W_o^l + X^(l-1).

        In the encoder, Y^l is Eq. 9. In the decoder, A_ed^l X_enc W_o^l is added to it (Eq. 13).

        Args:
            x: state X^(l-1) of the previous layer (B, T, C).
            attended: A^l LN(X^(l-1)) (B, H, T, C/H).
            attended_source: A_ed^l X_enc (B, H, T, C/H), in the decoder.

        Returns:
            State X^l (B, T, C).
        """
        x = x + self.dropout_module(self.self_attn_out_proj(merge_heads(attended)))
        if attended_source is not None:
            x = x + self.dropout_module(self.encoder_attn_out_proj(merge_heads(attended_source)))
        return x + self.dropout_module(self.feed_forward(self.final_layer_norm(x)))


class TransEvolveEncoderBlock(Block):
    """Encoder block of depth L; it replaces a layer in fairseq's Transformer encoder.

    The authors' code normalises the output of a block, unlike the paper's equations. This LayerNorm
    interrupts the residual stream once per block. With ``normalize_before``, it is applied to the
    input of the queries and keys instead, and the stream passes through all blocks.

    The class is also the base of the decoder blocks.
    """

    cross_attention = False
    batch_first = True
    encoder_attn: TimeEvolvingAttention | None
    depths: Sequence[TransEvolveLayer]

    def __init__(self, spec: BlockSpec):
        super().__init__()
        self.num_heads = spec.attention_heads
        self.normalize_before = spec.normalize_before
        self.self_attn = TimeEvolvingAttention(spec)
        self.encoder_attn = TimeEvolvingAttention(spec) if self.cross_attention else None
        self.depths = nn.ModuleList(  # pyright: ignore[reportAttributeAccessIssue]
            TransEvolveLayer(spec, number, self.cross_attention)
            for number in range(1, spec.depth + 1)
        )
        self.layer_norm = LayerNorm(spec.embed_dim)

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None = None) -> Tensor:
        """Map X^0 to X^L: compute the scores once, then each layer.

        Args:
            x: input (T, B, C).
            encoder_padding_mask: true where a token is padding (B, T).

        Returns:
            Output (T, B, C).
        """
        x = x.transpose(0, 1)
        x0 = self._scored(x)
        attend = self.self_attn.evolve(*self.self_attn.project(x0, x0, encoder_padding_mask))
        for index, layer in enumerate(self.depths):
            x = layer(x, attend(index, layer.values(x)))
        x = x if self.normalize_before else self.layer_norm(x)
        return x.transpose(0, 1)

    def attention_maps(
        self, x: Tensor, encoder_padding_mask: Tensor | None = None
    ) -> Iterator[AttentionMaps]:
        """Yield A^l at all depths, always computed in the direct form."""
        yield self._maps(x, encoder_padding_mask)

    def _maps(self, x: Tensor, padding_mask: Tensor | None, causal: bool = False) -> AttentionMaps:
        """Return the maps of the self-attention for the block's input (T, B, C)."""
        x0 = self._scored(x.transpose(0, 1))
        q, k, bias = self.self_attn.project(x0, x0, padding_mask)
        weights = DirectAttention(q, k, bias, causal).weights.movedim(2, 0)
        return AttentionMaps(weights, bias=bias)

    def projections(self) -> Iterator[Projections]:
        """Yield the projections at each depth; only the first contain the queries and keys too."""
        pairs = {"QK": (self.self_attn.q_proj.weight, self.self_attn.k_proj.weight)}
        for layer in self.depths:
            out = layer.self_attn_out_proj.weight
            v = getattr(layer.self_attn_value_proj, "weight", torch.eye(len(out)).to(out))
            yield Projections(self.num_heads, {**pairs, "OV": (out.T, v)})
            pairs = {}

    def _scored(self, x: Tensor) -> Tensor:
        """Map the block's input (B, T, C) to the input of queries and keys."""
        return self.layer_norm(x) if self.normalize_before else x

    def state_modules(self) -> list[nn.Module]:
        """Return the modules whose outputs are the states (B, T, C) after each layer of the block.

        The last state is the output of the block, normalised unless LayerNorm comes first.
        """
        return [*self.depths] if self.normalize_before else [*self.depths[:-1], self.layer_norm]


class TransEvolveCausalBlock(Incremental, TransEvolveEncoderBlock):
    """Decoder block of depth L without an encoder: causal self-attention that evolves (Eq. 12).

    In incremental decoding, a new token adds its key, the key's bias and, in each layer, its value
    to the saved state of the block. A translator's block derives from this class and attends to the
    source in ``_attend_source``.
    """

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, None, None]:
        """Map X^0 to X^L, with the keys and values of earlier tokens and a source.

        Args:
            x: input (T, B, C); in incremental decoding, only the newest token (1, B, C).
            encoder_out, encoder_padding_mask: see :class:`TransEvolveDecoderBlock`.
            self_attn_mask: any tensor if the self-attention is causal; its values are not read.
            self_attn_padding_mask: true where a target token is padding (B, T).
            need_attn, need_head_weights: ignored, because a block may never compute its attention
                weights as a tensor.

        Returns:
            Output (T, B, C), and two Nones in place of attention weights and saved state.
        """
        x = x.transpose(0, 1)
        saved = self.saved(incremental_state)
        x0 = self._scored(x)
        attended_source = self._attend_source(x0, encoder_out, encoder_padding_mask, saved)
        key, bias = self.self_attn.keys(x0, self_attn_padding_mask)
        attend = self.self_attn.evolve(
            self.self_attn.queries(x0),
            append(saved, "key", key, dim=2),
            append(saved, "bias", bias, dim=2),
            causal=self_attn_mask is not None,
        )
        for index, layer in enumerate(self.depths):
            value = append(saved, f"value{index}", layer.values(x), dim=2)
            x = layer(x, attend(index, value), attended_source[index])
        self.save(incremental_state, saved)
        x = x if self.normalize_before else self.layer_norm(x)
        return x.transpose(0, 1), None, None

    def attention_maps(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        **unused: bool,
    ) -> Iterator[AttentionMaps]:
        """Yield A^l at all depths for an entire text, then the maps of cross-attention."""
        yield self._maps(x, self_attn_padding_mask, causal=self_attn_mask is not None)
        if self.encoder_attn is not None and encoder_out is not None:
            x0, source = self._scored(x.transpose(0, 1)), encoder_out.transpose(0, 1)
            q, k, bias = self.encoder_attn.project(x0, source, encoder_padding_mask)
            weights = DirectAttention(q, k, bias, False).weights.movedim(2, 0)
            yield AttentionMaps(weights, cross=True, bias=bias)

    def for_export(self) -> "TransEvolveCausalBlock":
        """Return the block in its direct form, the fastest for the single query of generation."""
        for attention in filter(None, (self.self_attn, self.encoder_attn)):
            attention.backend = "direct"
        return self

    def _attend_source(
        self,
        x: Tensor,
        encoder_out: Tensor | None,
        padding_mask: Tensor | None,
        saved: Saved,
    ) -> Sequence[Tensor | None]:
        """Return the terms of the L layers that depend on an encoder: None here."""
        return [None] * len(self.depths)


class TransEvolveDecoderBlock(TransEvolveCausalBlock):
    """Decoder block of depth L: both of its attentions evolve (paper, Eqs. 12 and 13).

    In cross-attention, queries come from the block's input, keys from the encoder
    output, and the values are the encoder output in every layer. One product therefore computes the
    attention in all layers, unless options add maps of the values in each layer.

    Its ``forward`` takes the encoder output (S, B, C) and a mask (B, S), true where a source token
    is padding. In beam search, both contain one row per sentence, B / beams in all (see
    :func:`shared_rows`).
    """

    cross_attention = True
    encoder_attn: TimeEvolvingAttention
    shares_source = True  # whether the beams of a sentence share one row of the source

    def __init__(self, spec: BlockSpec):
        super().__init__(spec)
        self.map_values = spec.cross_attention_value_norm or spec.cross_attention_value_projection

    def _attend_source(
        self,
        x: Tensor,
        encoder_out: Tensor,
        padding_mask: Tensor | None,
        saved: Saved,
    ) -> Sequence[Tensor]:
        """Return A_ed^l X_enc (B, H, T, C/H) of all L layers, from (B, T, C) and (S, B, C)."""
        source = encoder_out.transpose(0, 1)
        beams = x.size(0) // source.size(0) if self.shares_source else 1
        if "source_key" not in saved:
            key, bias = self.encoder_attn.keys(source, padding_mask)
            saved["source_key"], saved["source_bias"] = key.contiguous(), bias
            saved["source_value"] = self._source_values(source).contiguous()
        # The beams of a sentence become queries to the same encoder output: (B, H, beams * T, D).
        query = self.encoder_attn.queries(x).unflatten(0, (-1, beams)).transpose(1, 2).flatten(2, 3)
        attend = self.encoder_attn.evolve(query, saved["source_key"], saved["source_bias"])
        value = saved["source_value"]
        if self.map_values:
            out = torch.stack(
                [attend(index, mapped) for index, mapped in enumerate(value.unbind(1))]
            )
        else:
            out = attend.all_depths(value)
        return out.unflatten(3, (beams, -1)).transpose(2, 3).flatten(1, 2).unbind(0)

    def for_export(self) -> "TransEvolveDecoderBlock":
        """Return the block with one row of the source per beam, so that no size is a product."""
        super().for_export()
        self.shares_source = False
        return self

    def _source_values(self, encoder_out: Tensor) -> Tensor:
        """Return X_enc (B, H, S, C/H), or its maps in each layer (B, L, H, S, C/H)."""
        if not self.map_values:
            return split_heads(encoder_out, self.num_heads)
        values = (layer.encoder_attn_value(encoder_out) for layer in self.depths)
        return torch.stack([split_heads(value, self.num_heads) for value in values], 1)

    def reorder(self, saved: Saved, new_order: Tensor) -> Saved:
        """Reorder hypotheses; the beams of a sentence share the rows of its source."""
        rows, _ = shared_rows(new_order, saved["key"].size(0) // saved["source_key"].size(0))
        return {
            name: tensor.index_select(0, rows if name.startswith("source") else new_order)
            for name, tensor in saved.items()
        }


def shared_rows(new_order: Tensor, beams: int) -> tuple[Tensor, int]:
    """Reorder hypotheses that share rows, as the beams of a sentence share its encoder output.

    Args:
        new_order: index of old hypotheses; the first ``beams`` of them share row 0, and so on.
        beams: number of hypotheses that share a row.

    Returns:
        Index of rows, and number of reordered hypotheses that share each of them.
    """
    rows = new_order // beams
    distinct, counts = rows.unique_consecutive(return_counts=True)
    beams = int(counts[0])
    return (distinct, beams) if (counts == beams).all() else (rows, 1)


def projection(embed_dim: int, gain: float = 1.0) -> nn.Linear:
    """Make a square map without a bias, such as W_o, with a Glorot-uniform matrix times a gain."""
    linear = LinearWithoutBias(embed_dim, embed_dim)
    nn.init.xavier_uniform_(linear.weight, gain)
    return linear
