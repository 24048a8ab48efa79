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

    In fairseq's stacks, a whole block replaces a layer; the block computes the scores.

    Args:
        number: l, from 1 to L.
        cross_attention: whether the layer also has a W_o^l for the encoder-decoder attention and,
            if options ask for them, maps of its values.
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
        """The heads of LN(X), projected if there is a projection: (B, T, C) to (B, H, T, C/H)."""
        return split_heads(self.self_attn_value_proj(self.self_attn_layer_norm(x)), self.num_heads)

    def layer_parts(self, x: Tensor, attended: Tensor, *unused: Tensor) -> Iterator[LayerParts]:
        """The outputs of the heads; for the arguments, see :meth:`forward`."""
        yield LayerParts(attended[0])

    def forward(self, x: Tensor, attended: Tensor, attended_source: Tensor | None = None) -> Tensor:
        """X^l = FF^l(LN(H^l)) + H^l (paper, Eq. 11), with H^l = A^l LN(X^(l-1)) W_o^l + X^(l-1).

        In the encoder, H^l is Eq. 9. In the decoder, A_ed^l X_enc W_o^l is added to it (Eq. 13).

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

    The released code normalises the output of a block; the paper's equations do not. This
    interrupts the residual stream once per block. With ``normalize_before``, the same LayerNorm is
    applied before the queries and keys instead, and the stream passes through all blocks.

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
        """From X^0 to X^L: computes the scores once, then each layer.

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
        """A^l at all depths, in the direct form, whichever form the block uses."""
        yield self._maps(x, encoder_padding_mask)

    def _maps(self, x: Tensor, padding_mask: Tensor | None, causal: bool = False) -> AttentionMaps:
        """The maps of the self-attention, from the block's input (T, B, C)."""
        x0 = self._scored(x.transpose(0, 1))
        q, k, bias = self.self_attn.project(x0, x0, padding_mask)
        weights = DirectAttention(q, k, bias, causal).weights.movedim(2, 0)
        return AttentionMaps(weights, bias=bias)

    def projections(self) -> Iterator[Projections]:
        """The projections at each depth; the first also has the queries and keys of the block."""
        pairs = {"QK": (self.self_attn.q_proj.weight, self.self_attn.k_proj.weight)}
        for layer in self.depths:
            out = layer.self_attn_out_proj.weight
            v = getattr(layer.self_attn_value_proj, "weight", torch.eye(len(out)).to(out))
            yield Projections(self.num_heads, {**pairs, "OV": (out.T, v)})
            pairs = {}

    def _scored(self, x: Tensor) -> Tensor:
        """The input of queries and keys, from the block's input (B, T, C)."""
        return self.layer_norm(x) if self.normalize_before else x

    def state_modules(self) -> list[nn.Module]:
        """The modules with the states (B, T, C) after each layer of the block as outputs.

        The last state is the output of the block, normalised unless LayerNorm comes first.
        """
        return [*self.depths] if self.normalize_before else [*self.depths[:-1], self.layer_norm]


class TransEvolveCausalBlock(Incremental, TransEvolveEncoderBlock):
    """Decoder block of depth L without an encoder: causal self-attention that evolves (Eq. 12).

    In incremental decoding, a new token adds its key, the key's bias and, in each layer, its value
    to the saved state of the block. The block of a translator derives from this one and attends to
    the source in ``_attend_source``.
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
        """As the encoder block, with the keys and values of earlier tokens, and a source.

        Args:
            x: input (T, B, C); in incremental decoding, only the newest token (1, B, C).
            encoder_out, encoder_padding_mask: see :class:`TransEvolveDecoderBlock`.
            self_attn_mask: any tensor if the self-attention is causal; its values are not read.
            self_attn_padding_mask: true where a target token is padding (B, T).
            need_attn, need_head_weights: ignored, because a block may never have its attention
                weights as a tensor.

        Returns:
            Output (T, B, C), and None twice, in place of attention weights and saved state.
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
        """As the encoder block, for a whole text, and the maps of the attention to the source."""
        yield self._maps(x, self_attn_padding_mask, causal=self_attn_mask is not None)
        if self.encoder_attn is not None and encoder_out is not None:
            x0, source = self._scored(x.transpose(0, 1)), encoder_out.transpose(0, 1)
            q, k, bias = self.encoder_attn.project(x0, source, encoder_padding_mask)
            weights = DirectAttention(q, k, bias, False).weights.movedim(2, 0)
            yield AttentionMaps(weights, cross=True, bias=bias)

    def for_export(self) -> "TransEvolveCausalBlock":
        """The block in its direct form, which suits generation with its single query."""
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
        """The terms that the L layers add from an encoder: none."""
        return [None] * len(self.depths)


class TransEvolveDecoderBlock(TransEvolveCausalBlock):
    """Decoder block of depth L: both of its attentions evolve (paper, Eqs. 12 and 13).

    In the encoder-decoder attention, queries come from the block's input, keys from the encoder
    output, and the values are the encoder output in every layer. So one product computes the
    attention in all layers, unless options map the values in each layer.

    Its ``forward`` takes the encoder output (S, B, C) and a mask (B, S), true where a source token
    is padding. In beam search, both only have rows for B / beams sentences (see
    :func:`shared_rows`).
    """

    cross_attention = True
    encoder_attn: TimeEvolvingAttention
    shares_source = True  # whether the beams of a sentence have one row of it

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
        """A_ed^l X_enc in every layer: L tensors (B, H, T, C/H), from (B, T, C) and (S, B, C)."""
        source = encoder_out.transpose(0, 1)
        beams = x.size(0) // source.size(0) if self.shares_source else 1
        if "source_key" not in saved:
            key, bias = self.encoder_attn.keys(source, padding_mask)
            saved["source_key"], saved["source_bias"] = key.contiguous(), bias
            saved["source_value"] = self._source_values(source).contiguous()
        # The beams of a sentence are further queries to its encoder output: (B, H, beams * T, D).
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
        """The same with a row of the source for each beam: no size depends on two others."""
        super().for_export()
        self.shares_source = False
        return self

    def _source_values(self, encoder_out: Tensor) -> Tensor:
        """X_enc (B, H, S, C/H), or its maps in each layer (B, L, H, S, C/H)."""
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
        new_order: index of hypotheses; the first ``beams`` of the old ones share row 0, and so on.
        beams: number of hypotheses that share a row.

    Returns:
        Index of rows, and number of reordered hypotheses that share each of them.
    """
    rows = new_order // beams
    distinct, counts = rows.unique_consecutive(return_counts=True)
    beams = int(counts[0])
    return (distinct, beams) if (counts == beams).all() else (rows, 1)


def projection(embed_dim: int, gain: float = 1.0) -> nn.Linear:
    """A square map without a bias, such as W_o, with a Glorot-uniform matrix times a gain."""
    linear = LinearWithoutBias(embed_dim, embed_dim)
    nn.init.xavier_uniform_(linear.weight, gain)
    return linear
