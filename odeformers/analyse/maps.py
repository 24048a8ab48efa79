"""The attention maps of a batch at every depth of an encoder, and of a decoder if there is one."""

import inspect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor
from torch.nn import Module

from fairseq_odeformers.models.common.recording import Call, first_calls, record_calls
from fairseq_odeformers.models.diffeq_transformer.block import DiffEqEncoderBlock
from fairseq_odeformers.models.node_transformer.block import NodeBlock
from fairseq_odeformers.models.node_transformer.layout import features_first, layer_norm
from fairseq_odeformers.models.transevolve.attention import DirectAttention, split_heads
from fairseq_odeformers.models.transevolve.block import TransEvolveEncoderBlock

KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}


class NoMaps(ValueError):
    """A model has no attention maps to be measured or drawn."""


class Maps(NamedTuple):
    """The maps of one kind in a model.

    Attributes:
        weights: distributions over the keys (L, B, H, T, S), in the order of the depths.
        places: of each of the L maps, the number of its layer or block, and its depth in the model.
        biases: b^l of the keys (B, H, S, L) of each block of TransEvolve; None of other blocks.
    """

    weights: Tensor
    places: list[tuple[int, int]]
    biases: Sequence[Tensor | None]


def find_attentions(model) -> dict[Module, str]:
    """The layers and blocks that have maps, each with its side, ``encoder`` or ``decoder``."""
    with_maps = MultiheadAttention, TransEvolveEncoderBlock, NodeBlock, DiffEqEncoderBlock
    return {
        module: name.partition(".")[0]
        for name, module in model.named_modules()
        if isinstance(module, with_maps)
    }


def check_maps(path: str, model) -> None:
    """Check that the model of a checkpoint has the maps of an encoder.

    Raises:
        NoMaps: it has none.
    """
    if "encoder" not in find_attentions(model).values():
        raise NoMaps(
            f"{path}: {type(model).__name__} has no encoder with attention maps; translators have "
            "one, and all classifiers but TransJect"
        )


@torch.no_grad()
def attention_maps(model, net_input: dict) -> dict[str, Maps]:
    """The maps of a model in evaluation mode, by their kind.

    The model runs as always; the maps are computed from the inputs of its layers. A block of the
    N-ODE Transformer, which has a map at each time, has the two at t = 0 and T_F: of the states
    that it starts from and ends in, at depths 0 and 1 of the block. A layer that is evaluated
    several times, as in a Runge-Kutta block, has the map of its first evaluation.

    Args:
        net_input: of a batch; of a model without a decoder, its encoder takes the first text.
    """
    sides = find_attentions(model)
    with record_calls(sides) as calls:
        if hasattr(model, "decoder"):
            model(**net_input)
        else:
            model.encoder(net_input["src_tokens"], net_input.get("src_lengths"))
    blocks = {kind: [] for kind in KINDS}
    for call in first_calls(calls):
        for kind, *block in blocks_of(call, sides[call.module]):
            blocks[kind].append(block)
    return {kind: join_blocks(*zip(*of_kind)) for kind, of_kind in blocks.items() if of_kind}


def join_blocks(weights, depths, biases) -> Maps:
    """The maps of all blocks, from each block's maps."""
    places, before = [], 0
    for number, of_block in enumerate(depths, start=1):
        places += [(number, before + depth) for depth in of_block]
        before += of_block[-1]
    return Maps(torch.cat(weights), places, biases)


def blocks_of(call: Call, side: str) -> Iterator[tuple[str, Tensor, Sequence[int], Tensor | None]]:
    """Kind, weights (L, B, H, T, S), depths and bias of each attention of a layer or block."""
    module = call.module
    if isinstance(module, MultiheadAttention):
        # Without ``static_kv`` fairseq calls torch's function, which averages over the heads.
        wanted = {**call.kwargs, "static_kv": True, "need_head_weights": True}
        _, weights = module(*call.args, **wanted)  # H, B, T, S
        kind = "cross" if module.encoder_decoder_attention else side
        yield kind, weights.transpose(0, 1).unsqueeze(0), (1,), None
        return
    if isinstance(module, DiffEqEncoderBlock):
        for kind, weights in zip((side, "cross"), diffeq_maps(module, call)):
            yield kind, weights, range(1, 1 + len(weights)), None
        return
    # fairseq's checkpointing of activations hides the signature of the module's own forward.
    bound = inspect.signature(type(module).forward).bind(module, *call.args, **call.kwargs)
    arguments = bound.arguments
    source, padding = arguments.get("encoder_out"), arguments.get("encoder_padding_mask")
    self_padding = padding if source is None else arguments.get("self_attn_padding_mask")
    batch = arguments["x"], self_padding, source, padding
    if isinstance(module, NodeBlock):
        maps = [(weights, (0, 1), None) for weights in node_maps(module, call.output[0], *batch)]
    else:
        maps = transevolve_maps(module, *batch)
    for kind, (weights, depths, bias) in zip((side, "cross"), maps):
        yield kind, weights, depths, bias


def transevolve_maps(block, x, padding, source, source_padding):
    """A^l of all depths of a block, by the direct form, whichever form the block has taken."""
    x = x.transpose(0, 1)
    x0 = block.layer_norm(x) if block.normalize_before else x
    attentions = [block.self_attn.project(x0, x0, padding)]
    if source is not None:
        source = source.transpose(0, 1)
        attentions.append(block.encoder_attn.project(x0, source, source_padding))
    for index, (q, k, bias) in enumerate(attentions):
        causal = source is not None and index == 0
        weights = DirectAttention(q, k, bias, causal).weights.movedim(2, 0)
        yield weights, range(1, 1 + len(weights)), bias


def diffeq_maps(block: DiffEqEncoderBlock, call: Call) -> Iterator[Tensor]:
    """The maps (L, B, H, T, S) of each attention at all steps, which are taken again."""
    attentions = [a for a in (block.self_attn, block.encoder_attn) if a is not None]
    with record_calls(attentions) as steps:
        block(*call.args, **call.kwargs)
    for attention in attentions:
        maps = []
        for step in (step for step in steps if step.module is attention):
            if attention is block.self_attn:
                q, k, _, _, mask, causal = step.args
            else:
                x, kv, (norm, q_proj, *_), mask = step.args
                q, (k, _), causal = (
                    F.linear(attention.normalize(x, norm), *q_proj),
                    kv.chunk(2, -1),
                    0,
                )
            q, k = (split_heads(y, attention.num_heads) for y in (q, k))
            scores = q @ k.mT * q.size(-1) ** -0.5
            if causal:
                mask = scores.new_ones(scores.shape[-2:]).tril().bool()
            if mask is not None:
                scores = scores.masked_fill(~mask, -torch.inf)
            maps.append(scores.softmax(-1))
        yield torch.stack(maps)


def node_maps(block, end, x, *batch) -> Iterator[Tensor]:
    """The maps (2, B, H, T, S) of an N-ODE block at t = 0 and T_F, from states x and *end*."""
    ends = (0.0, features_first(x)), (float(block.final_time), features_first(end))
    _, source, _ = batch
    f = block.field.bind(ends[0][1], *batch, causal=source is not None)
    return map(torch.stack, zip(*(field_maps(f, t, state) for t, state in ends)))


def field_maps(f, t: float, x: Tensor) -> Iterator[Tensor]:
    """The map (B, H, T, S) of each attention of a field of a batch, at a time and state."""
    for sublayer in f.attentions:
        attention = sublayer.function
        z = x if sublayer.norm is None else layer_norm(x, *sublayer.norm)
        q, k, _ = (
            split_heads(y.permute(2, 1, 0), attention.num_heads) for y in attention.project(t, z)
        )
        scores = q @ k.mT * q.size(-1) ** -0.5
        if attention.bias is not None:
            scores = scores + attention.bias.permute(2, 1, 0).unsqueeze(1)
        yield scores.softmax(-1)
        attended = sublayer(t, x)
        x = x + attended if f.skip_connection else attended
