"""Encoders and decoders over blocks of several layers, and the state after each of these layers.

The list that fairseq calls ``layers`` contains the blocks. A block calls its own layers ``depths``.
The outputs of its ``state_modules()`` are the states after them, with shape (B, T, C) if the block
is ``batch_first`` and (T, B, C) otherwise. :func:`join_layers` joins all layers of a stack into one
block.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from fairseq.models import FairseqDecoder, FairseqEncoder
from torch import Tensor, nn

from fairseq_odeformers.options import SIDES, flag

from .recording import record_calls


class EncoderOfDepths(nn.Module):
    """Mixin for an encoder that also returns the state after each layer of its blocks."""

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> dict[str, Any]:
        """Encode tokens (B, T) as fairseq does, with the states after each layer.

        With ``return_all_hiddens``, ``encoder_states`` are X_0 and the state (T, B, C) after each
        layer of each block, or after each block if one :func:`recomputes_states`.
        """
        with depth_states(self, return_all_hiddens) as states:
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        if states:
            out = {**out, "encoder_states": out["encoder_states"][:1] + states}
        return out


class DecoderOfDepths(nn.Module):
    """Mixin for a decoder that also returns the state after each layer of its blocks."""

    def forward(
        self, prev_output_tokens: Tensor, *args, return_all_hiddens: bool = False, **kwargs
    ) -> tuple[Tensor, dict]:
        """Decode tokens (B, T) as fairseq does, with the states after each layer.

        With ``return_all_hiddens``, ``inner_states`` are X_0 and the state (T, B, C) after each
        layer of each block, or after each block if one :func:`recomputes_states`.
        """
        with depth_states(self, return_all_hiddens) as states:
            x, extra = super().forward(prev_output_tokens, *args, **kwargs)
        if states:
            extra = {**extra, "inner_states": extra["inner_states"][:1] + states}
        return x, extra


@contextmanager
def depth_states(stack: FairseqEncoder | FairseqDecoder, wanted: bool) -> Iterator[list[Tensor]]:
    """Yield a list, filled with the states (T, B, C) after each layer when the statement ends.

    The arclength regulariser (``criterions/arclength.py``) uses them.

    Args:
        stack: an encoder or a decoder, called inside the ``with`` statement.
        wanted: whether to collect the states; otherwise, and if the stack
            :func:`recomputes_states`, the list stays empty.
    """
    blocks = blocks_of_layers(stack) if wanted and not recomputes_states(stack) else []
    batch_first = {module: b.batch_first for b in blocks for module in b.state_modules()}
    states: list[Tensor] = []
    with record_calls(batch_first) as calls:
        yield states
    for call in calls:
        states.append(call.output.transpose(0, 1) if batch_first[call.module] else call.output)


def blocks_of_layers(stack: nn.Module) -> list[Any]:
    """Return the blocks of several layers in a stack; other stacks have none."""
    layers = getattr(stack, "layers", [])
    return [block for block in layers if hasattr(block, "state_modules")]


def recomputes_states(stack: nn.Module) -> bool:
    """Return whether the backward pass recomputes the states within blocks of a stack.

    No gradient would reach such states.
    """
    # fairseq's activation checkpointing replaces the method forward.
    checkpointed = any("forward" in vars(block) for block in blocks_of_layers(stack))
    return checkpointed and torch.is_grad_enabled()


def join_layers(stack: Any, block: nn.Module) -> None:
    """Replace the layers of an encoder or decoder with one block that contains them.

    Args:
        stack: a fairseq encoder or decoder.
        block: the block; it is called as a layer of *stack* would be.
    """
    stack.layers = nn.ModuleList([block])
    stack.num_layers = 1


def check_joined(cfg, each_layer: str, pre_norm: str) -> None:
    """Check that joined layers support the options.

    Args:
        each_layer: the reason why no layer can be left out.
        pre_norm: the reason why the layers must be pre-norm.

    Raises:
        ValueError: an option is not supported; the message names it.
    """
    for side in SIDES:
        for name in (f"{side}_layerdrop", f"{side}_layers_to_keep"):
            if value := getattr(cfg, name, None):
                raise ValueError(f"{flag(name)} {value}: {each_layer}; leave it out")
        if getattr(cfg, f"{side}_normalize_before", True) is False:
            raise ValueError(f"--no-{side}-normalize-before: {pre_norm}; leave it out")
