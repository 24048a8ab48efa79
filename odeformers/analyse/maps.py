"""Attention maps of a batch at every depth of an encoder and, if any, a decoder."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from fairseq_odeformers.models.common.answers import AttentionMaps, ask
from fairseq_odeformers.models.common.recording import first_calls, record_calls
from fairseq_odeformers.options import SIDES

KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}


class NotApplicable(ValueError):
    """An analysis does not apply to a model, such as a model without attention maps."""


class Maps(NamedTuple):
    """The maps of one kind in a model.

    Attributes:
        weights: distributions over the keys (L, B, H, T, S), in the order of the depths.
        places: for each of the L maps, the number of its layer or block, and its depth.
        biases: b^l of the keys (B, H, S, L) for each block of TransEvolve; None for other blocks.
    """

    weights: Tensor
    places: list[tuple[int, int]]
    biases: Sequence[Tensor | None]


def find_attentions(model) -> dict[Module, tuple[str, Callable]]:
    """Find the layers and blocks with maps, their sides, and the functions that compute maps."""
    return {
        module: (side, answer)
        for side in SIDES
        if hasattr(model, side)
        for module, answer in ask(getattr(model, side), "attention_maps").items()
    }


def check_maps(path: str, model) -> None:
    """Check that the model of a checkpoint has an encoder with attention maps.

    Raises:
        NotApplicable: the encoder has no maps, or there is no encoder.
    """
    if "encoder" not in {side for side, _ in find_attentions(model).values()}:
        raise NotApplicable(
            f"{path}: {type(model).__name__} has no encoder with attention maps; translators have "
            "one, and all classifiers but TransJect"
        )


@torch.no_grad()
def attention_maps(model, net_input: dict) -> dict[str, Maps]:
    """Compute the maps of a model in evaluation mode, by their kind.

    The model runs as always, and the maps are computed from the inputs of its layers. A block of
    the N-ODE Transformer has a map at each time; here, it gets the maps of its initial and final
    state, at t = 0 and T_F, as depths 0 and 1 of the block. A layer that is evaluated several
    times, as in a Runge-Kutta block, gets the map of its first evaluation.

    Args:
        net_input: inputs of a batch; a model without a decoder only reads the first text of a pair.
    """
    attentions = find_attentions(model)
    with record_calls(attentions) as calls:
        if hasattr(model, "decoder"):
            model(**net_input)
        else:
            model.encoder(net_input["src_tokens"], net_input.get("src_lengths"))
    blocks: dict[str, list[AttentionMaps]] = {kind: [] for kind in KINDS}
    for call in first_calls(calls):
        side, answer = attentions[call.module]
        for maps in answer(*call.args, **call.kwargs):
            blocks["cross" if maps.cross else side].append(maps)
    return {kind: join_blocks(of_kind) for kind, of_kind in blocks.items() if of_kind}


def join_blocks(blocks: Sequence[AttentionMaps]) -> Maps:
    """Concatenate the maps of blocks."""
    places, before = [], 0
    for number, maps in enumerate(blocks, start=1):
        places += [(number, before + maps.first + index) for index in range(len(maps.weights))]
        before = places[-1][1]
    return Maps(torch.cat([maps.weights for maps in blocks]), places, [b.bias for b in blocks])
