"""The arclength of any model that computes its states layer by layer, a discretised ODE."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from inspect import signature

from fairseq.models import FairseqDecoder, FairseqEncoder
from torch import Tensor, nn

from fairseq_odeformers.modules.precision import at_least_float32
from fairseq_odeformers.modules.recording import Call, recorded


def discrete_arclength(states: list[Tensor], real: Tensor) -> Tensor:
    r"""The arclength (B) of Euler steps of size 1/L from X_0 to X_L.

    .. math:: \frac{L}{2n} \sum_{l=0}^{L-1} \| X_{l+1} - X_l \|_F^2

    This is Eq. 6 of the N-ODE Transformer (Baier-Reinio and De Sterck 2020) with the slopes
    L (X_(l+1) - X_l) and T_F = 1.

    Args:
        states: X_0, ..., X_L, each (T, B, C).
        real: true where a token is not padding (B, T); n of a sequence are these.
    """
    none = at_least_float32(states[0].new_zeros(states[0].shape[:2]))  # if all layers are dropped
    squares = sum(
        (
            at_least_float32(after - before).square().sum(-1)
            for before, after in zip(states, states[1:])
        ),
        start=none,
    )
    tokens = real.sum(1).clamp(min=1)
    return (len(states) - 1) / 2 * (squares.T * real).sum(1) / tokens


def with_arclength(model: nn.Module, inputs: dict):
    """What a model returns, with its arclength among the regularisers.

    It is the sum of those of encoder and decoder, and of both texts of a pair. A model that
    computes its own, as the N-ODE Transformer, keeps that; one without hidden states has none.
    """
    with hidden_states(model) as calls:
        output, extra, *others = model(**inputs)
    if calls and "arclength" not in extra.get("regularizers", {}):
        regularizers = {**extra.get("regularizers", {}), "arclength": sum(map(of_call, calls))}
        extra = {**extra, "regularizers": regularizers}
    return output, extra, *others


def of_call(call: Call) -> Tensor:
    """The arclength (B) of a call of an encoder or decoder that returns all hidden states."""
    tokens, padding = call.args[0], call.module.dictionary.pad()
    if isinstance(call.module, FairseqEncoder):
        states = call.output["encoder_states"]
    else:
        states = call.output[1]["inner_states"]
    return discrete_arclength(states, tokens.ne(padding))


@contextmanager
def hidden_states(model: nn.Module):
    """The calls of the encoder and the decoder, which return all hidden states meanwhile.

    They are fairseq's ``encoder_states`` and ``inner_states``, for ``return_all_hiddens``.
    """
    stacks = [
        module
        for module in model.modules()
        if isinstance(module, (FairseqEncoder, FairseqDecoder))
        and hasattr(module, "layers")
        and "return_all_hiddens" in signature(module.forward).parameters
    ]
    with ExitStack() as hooks:
        for stack in stacks:
            hooks.callback(stack.register_forward_pre_hook(ask, with_kwargs=True).remove)
        yield hooks.enter_context(recorded(stacks))


def ask(module, args, kwargs):
    """The arguments of a call, and that for all hidden states."""
    return args, {**kwargs, "return_all_hiddens": True}
