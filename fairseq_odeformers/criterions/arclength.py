"""The arclength of a model's hidden states, where each layer counts as an Euler step of an ODE.

The N-ODE Transformer integrates its own arclength in ``models/node_transformer/problem.py``.
"""

from contextlib import ExitStack
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from fairseq_odeformers.models.common.answers import ask
from fairseq_odeformers.models.common.depths import recomputes_states
from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.modules.basics import at_least_float32


def discrete_arclength(states: list[Tensor], token_mask: Tensor) -> Tensor:
    r"""Return the arclength (B) of Euler steps of size 1/L from X_0 to X_L.

    .. math:: \frac{L}{2n} \sum_{l=0}^{L-1} \left\| X_{l+1} - X_l \right\|_F^2

    This is Eq. 6 of the N-ODE Transformer (Baier-Reinio and De Sterck 2020) with the slopes
    L (X_(l+1) - X_l) and T_F = 1.

    Args:
        states: X_0, ..., X_L, each (T, B, C).
        token_mask: true where a token is not padding (B, T); n is the number of these tokens in a
            text.
    """
    squares = at_least_float32(states[0].new_zeros(states[0].shape[:2]))  # (T, B)
    for before, after in pairwise(states):  # no pairs if LayerDrop has dropped all layers
        squares = squares + at_least_float32(after - before).square().sum(-1)
    depth, tokens = len(states) - 1, token_mask.sum(1).clamp(min=1)
    return depth / 2 * (squares.T * token_mask).sum(1) / tokens


def with_arclength(model: nn.Module, inputs: dict) -> tuple:
    """Call a model and add the arclength to the regularisers in its output.

    The arclength (B) is summed over encoder and decoder, and over both texts of a pair. It is not
    added if the model computes its own arclength or has no hidden states.

    Raises:
        ValueError: a stack of the model :func:`.recomputes_states`.
    """
    stacks = ask(model, "layer_states")
    if any(map(recomputes_states, stacks)):
        raise ValueError(
            "--checkpoint-activations: it does not keep the states within a block, which "
            "--arclength-weight needs; leave one of the two options out"
        )
    with ExitStack() as hooks:
        for stack in stacks:
            hook = stack.register_forward_pre_hook(request_hidden_states, with_kwargs=True)
            hooks.callback(hook.remove)
        calls = hooks.enter_context(record_calls(stacks))
        output, extra, *others = model(**inputs)
    if calls and "arclength" not in extra.get("regularizers", {}):
        arclength = sum(
            discrete_arclength(stacks[stack](output), real_tokens(stack, args))
            for stack, args, _, output in calls
        )
        regularizers = {**extra.get("regularizers", {}), "arclength": arclength}
        extra = {**extra, "regularizers": regularizers}
    return output, extra, *others


def request_hidden_states(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Ask a module for all hidden states; this is a forward pre-hook."""
    return args, {**kwargs, "return_all_hiddens": True}


def real_tokens(stack: Any, args: tuple) -> Tensor:
    """Return a mask (B, T), true where the tokens in the arguments of a stack are not padding."""
    return args[0].ne(stack.dictionary.pad())
