"""The attention maps of a batch at every depth of an encoder, and of a decoder if there is one."""

import inspect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from fairseq_odeformers.models.node_transformer.block import NodeBlock
from fairseq_odeformers.models.node_transformer.layout import features_first, layer_norm
from fairseq_odeformers.models.transevolve.attention import DirectAttention, split_heads
from fairseq_odeformers.models.transevolve.block import TransEvolveEncoderBlock
from fairseq_odeformers.modules.recording import Call, recorded

KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}


class Block(NamedTuple):
    """The maps of one attention in a layer of a Transformer, or at the L depths of a block.

    Attributes:
        kind: of :data:`KINDS`.
        weights: distributions over the keys (L, B, H, T, S).
        depths: the depth of each map in its layer or block: 1 of a layer of a Transformer; 1, ...,
            L of a block of TransEvolve; 0 and 1 of one of the N-ODE Transformer, at its two ends.
        bias: b^l of TransEvolve's keys (B, H, S, L); None of others.
    """

    kind: str
    weights: Tensor
    depths: Sequence[int] = (1,)
    bias: Tensor | None = None


class Maps(NamedTuple):
    """The maps of one kind in a model.

    Attributes:
        weights: distributions over the keys (L, B, H, T, S), in the order of the depths.
        places: of each of the L maps, the number of its layer or block, and its depth in the model.
        biases: the bias of each block.
    """

    weights: Tensor
    places: list[tuple[int, int]]
    biases: list[Tensor | None]


@torch.no_grad()
def attention_maps(model, net_input: dict) -> dict[str, Maps]:
    """The maps of a model in evaluation mode, by their kind.

    The model runs as always; the maps are computed from the inputs of its layers. A block of the
    N-ODE Transformer, which has a map at each time, has the two at t = 0 and T_F: of the states
    that it starts from and ends in.

    Args:
        net_input: of a batch; of a model without a decoder, its encoder takes the first text.

    Raises:
        ValueError: the model has no such maps.
    """
    known = MultiheadAttention, TransEvolveEncoderBlock, NodeBlock
    sides = {
        module: name.partition(".")[0]
        for name, module in model.named_modules()
        if isinstance(module, known)
    }
    if not set(sides.values()) & {"encoder"}:
        raise ValueError(f"{type(model).__name__} has no encoder with attention maps")
    with recorded(sides) as calls:
        if hasattr(model, "decoder"):
            model(**net_input)
        else:
            model.encoder(net_input["src_tokens"], net_input.get("src_lengths"))
    found = {}
    blocks = [block for call in calls for block in blocks_of(call, sides[call.module])]
    for kind in KINDS:
        own = [block for block in blocks if block.kind == kind]
        places, before = [], 0
        for number, block in enumerate(own, start=1):
            places += [(number, before + depth) for depth in block.depths]
            before += block.depths[-1]
        if own:
            weights = torch.cat([block.weights for block in own])
            found[kind] = Maps(weights, places, [block.bias for block in own])
    return found


def blocks_of(call: Call, side: str) -> Iterator[Block]:
    """The maps of an attention or a block in one call, in the ``encoder`` or ``decoder``."""
    module = call.module
    if isinstance(module, MultiheadAttention):
        # Without ``static_kv`` fairseq calls torch's function, which averages over the heads.
        wanted = {**call.kwargs, "static_kv": True, "need_head_weights": True}
        _, weights = module(*call.args, **wanted)  # H, B, T, S
        cross = module.encoder_decoder_attention
        yield Block("cross" if cross else side, weights.transpose(0, 1).unsqueeze(0))
        return
    # fairseq's checkpointing of activations hides the signature of the module's own forward.
    given = inspect.signature(type(module).forward).bind(module, *call.args, **call.kwargs)
    of_block = transevolve_maps if isinstance(module, TransEvolveEncoderBlock) else node_maps
    yield from of_block(call, side, given.arguments)


def transevolve_maps(call: Call, side: str, given: dict) -> Iterator[Block]:
    """A^l of all depths of a block, by the direct form, whichever form the block has taken."""
    block, x = call.module, given["x"].transpose(0, 1)
    x0 = block.maybe_layer_norm(x, before=True)
    encoder_out, source_padding = given.get("encoder_out"), given.get("encoder_padding_mask")
    causal = given.get("self_attn_mask") is not None
    padding = source_padding if encoder_out is None else given.get("self_attn_padding_mask")
    attentions = [(side, block.self_attn, x0, padding, causal)]
    if encoder_out is not None:
        source = encoder_out.transpose(0, 1)
        attentions.append(("cross", block.encoder_attn, source, source_padding, False))
    for kind, attention, keys, padding, causal in attentions:
        q, k, bias = attention(x0, keys, padding)
        weights = DirectAttention(q, k, bias, causal).weights
        yield Block(kind, weights.movedim(2, 0), range(1, 1 + weights.size(2)), bias)


def node_maps(call: Call, side: str, given: dict) -> Iterator[Block]:
    """The maps of an N-ODE block at t = 0 and T_F."""
    block, field = call.module, call.module.field
    ends = [(0.0, features_first(given["x"])), (block.final_time, features_first(call.output[0]))]
    source, padding = given.get("encoder_out"), given.get("encoder_padding_mask")
    if source is None:
        f = field.bind(ends[0][1], padding)
    else:
        own_padding = given.get("self_attn_padding_mask")
        f = field.bind(ends[0][1], own_padding, source, padding, causal=True)
    found = [field_maps(f, float(t), x) for t, x in ends]
    for kind, weights in zip((side, "cross"), zip(*found)):
        yield Block(kind, torch.stack(weights), depths=(0, 1))


def field_maps(f, t: float, x: Tensor) -> Iterator[Tensor]:
    """The map (B, H, T, S) of each attention of a field of a batch, at a time and state."""
    for sublayer in f.attentions:
        attention = sublayer.function
        z = x if sublayer.norm is None else layer_norm(x, *sublayer.norm)
        q, k, _ = (
            split_heads(y.permute(2, 1, 0), attention.num_heads) for y in attention.projected(t, z)
        )
        scores = q @ k.mT * q.size(-1) ** -0.5
        if attention.bias is not None:
            scores = scores + attention.bias.permute(2, 1, 0).unsqueeze(1)
        yield scores.softmax(-1)
        attended = sublayer(t, x)
        x = x + attended if f.skip_connection else attended
