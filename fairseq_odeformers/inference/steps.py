"""A decoder as functions of tensors that torch can export.

fairseq keeps a decoder's tensors of earlier tokens in a tree of dictionaries, the incremental
state. Here, the tensors of this tree are arguments and results instead, so that torch can export
the functions of any decoder:

- :class:`Begin` maps the first token to log-probabilities of the second, and the state's tensors;
- :class:`Step` maps a token and the tensors to log-probabilities of the next, and new tensors;
- :class:`Score` maps a text to the log-probability of each of its tokens.

A step does not return tensors that it leaves unchanged, such as the keys of the source. The
functions are run on examples to find these tensors and the sizes that vary.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from fairseq_odeformers.models.common.answers import POSITION
from fairseq_odeformers.registry import Kind, kinds_of

BATCHES = (3, 4)  # numbers of texts in the two examples of a function's arguments


class Function(NamedTuple):
    """A function to export.

    Attributes:
        module: its ``forward(*arguments)`` takes the values of *arguments* in their order.
        arguments: example tensors by name, for ``BATCHES[0]`` texts.
        others: example tensors for ``BATCHES[1]`` texts, with other values of all sizes that vary.
        outputs: names of the results. A result with the name of an argument replaces it in the next
            call.
    """

    module: nn.Module
    arguments: Mapping[str, Tensor]
    others: Mapping[str, Tensor]
    outputs: Sequence[str]

    @property
    def sizes(self) -> dict[str, list[tuple[int, int]]]:
        """The sizes of each argument in both examples."""
        return {
            name: [*zip(tensor.shape, self.others[name].shape)]
            for name, tensor in self.arguments.items()
        }

    def describe(self) -> dict[str, Any]:
        """Return the dimension of each argument that indexes texts, if any, and the results."""
        dims = {n: s.index(BATCHES) if BATCHES in s else None for n, s in self.sizes.items()}
        return {"inputs": dims, "outputs": self.outputs}


class Part(nn.Module):
    """Base class of functions that call the decoder of a model, or its encoder.

    Attributes:
        translates: whether there is a source: the encoder's states (B, S, C), and a mask (B, S)
            that is true at padding.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model: Any = model
        self.translates = Kind.TRANSLATION in kinds_of(type(model))

    def log_probs(self, tokens: Tensor, source: Sequence[Tensor], state: Any = None) -> Tensor:
        """Return log-probabilities (B, T, V) of the next token after each token (B, T)."""
        inputs: dict[str, Any] = {"incremental_state": state}
        if self.translates:
            states, mask = source
            parts = {"encoder_out": [states.transpose(0, 1)], "encoder_padding_mask": [mask]}
            inputs["encoder_out"] = parts
        out = self.model.decoder(tokens, **inputs)
        return self.model.get_normalized_probs(out, log_probs=True, sample=None)

    def advance(
        self, tokens: Tensor, position: Tensor, source: Sequence[Tensor], state: dict[str, Any]
    ) -> Tensor:
        """Return log-probabilities (B, V) after the newest token (B, 1), and update the state."""
        state[POSITION] = {POSITION: position}
        log_probs = self.log_probs(tokens, source, state)[:, -1]
        del state[POSITION]
        return log_probs


class Encode(Part):
    """The encoder of a translator."""

    def forward(self, *arguments: Tensor) -> Tensor:
        """Return the states (B, S, C) of tokens (B, S)."""
        (tokens,) = arguments
        lengths = tokens.ne(self.model.encoder.dictionary.pad()).sum(1)
        return self.model.encoder(tokens, lengths)["encoder_out"][0].transpose(0, 1)


class Begin(Part):
    """The first step of generation."""

    def forward(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """Return log-probabilities (B, V) after first tokens (B, 1), and the state's tensors."""
        log_probs, state = self.run(*arguments)
        return log_probs, *flatten(state)[0]

    def run(self, tokens: Tensor, *source: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """Return the log-probabilities of :meth:`forward`, and fairseq's incremental state."""
        state: dict[str, Any] = {}
        return self.advance(tokens, tokens.new_zeros(()), source, state), state


class Step(Part):
    """A later step of generation.

    Args:
        like: the state after the first step.

    Attributes:
        changing: indices of the state's tensors that a step changes; only these are returned.
    """

    changing: Sequence[int]

    def __init__(self, model: nn.Module, like: dict[str, Any]):
        super().__init__(model)
        _, self.form = flatten(like)

    def forward(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """Return log-probabilities (B, V), and the tensors that change; see :meth:`run`."""
        log_probs, new = self.run(*arguments)
        return log_probs, *(new[index] for index in self.changing)

    def run(self, tokens: Tensor, position: Tensor, *others: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return log-probabilities (B, V), and all of the state's tensors.

        Args:
            tokens: newest tokens (B, 1).
            position: number () of earlier tokens.
            others: a translator's source, and the state's tensors.
        """
        source, tensors = (others[:2], others[2:]) if self.translates else ((), others)
        remaining, (spec, holes) = iter(tensors), self.form
        state = tree_unflatten([None if hole else next(remaining) for hole in holes], spec)
        log_probs = self.advance(tokens, position, source, state)
        new, form = flatten(state)
        if form != self.form:
            raise ValueError("its decoder keeps other tensors after each step")
        return log_probs, new


class Score(Part):
    """The scores of entire texts."""

    def forward(self, *arguments: Tensor) -> Tensor:
        """Return log-probabilities (B, T) of targets (B, T) that follow tokens (B, T)."""
        tokens, targets = arguments
        return self.log_probs(tokens, ()).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def flatten(state: dict[str, Any]) -> tuple[list[Tensor], Any]:
    """Flatten an incremental state: return its tensors, and its structure without them."""
    leaves, spec = tree_flatten(state)
    holes = [leaf is None for leaf in leaves]
    return [leaf for leaf in leaves if leaf is not None], (spec, holes)


@torch.no_grad()
def make_steps(model: nn.Module) -> dict[str, Function]:
    """Make the functions of a translator or language model, by name.

    Args:
        model: a model as :func:`.make_exportable` returns it.
    """
    (modules, arguments, states), (_, others, _) = (
        run_steps(model, *sizes) for sizes in zip(BATCHES, (5, 9), (2, 6))
    )
    values = enumerate(zip(*states))
    modules["step"].changing = [index for index, tensors in values if not is_constant(tensors)]
    caches = [f"cache{n}" for n, _ in enumerate(states[-1])]
    outputs = {
        "encoder": ["states"],
        "begin": ["log_probs", *caches],
        "step": ["log_probs", *(caches[n] for n in modules["step"].changing)],
        "score": ["log_probs"],
    }
    return {
        name: Function(module, arguments[name], others[name], outputs[name])
        for name, module in modules.items()
    }


def run_steps(
    model: Any, batch: int, length: int, past: int
) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]], list[list[Tensor]]]:
    """Run the functions on random texts, and return them, their arguments, and the states.

    There is one list of a state's tensors for each call, the first step and *past* later steps.

    Args:
        batch: number of texts.
        length: number of tokens of each source.
        past: number of tokens of each text before its last token.
    """
    begin = Begin(model)
    modules: dict[str, Any] = {"begin": begin}
    arguments, source = {}, {}
    tokens = make_tokens(model.decoder, batch, past + 1)
    if begin.translates:
        modules["encoder"] = Encode(model)
        arguments["encoder"] = {"tokens": make_tokens(model.encoder, batch, length)}
        encoded = modules["encoder"](arguments["encoder"]["tokens"])
        source = {"states": encoded, "mask": torch.zeros(batch, length, dtype=torch.bool)}
    else:
        modules["score"] = Score(model)
        arguments["score"] = {"tokens": tokens, "targets": tokens.clone()}
    arguments["begin"] = {"tokens": tokens[:, :1], **source}
    _, state = begin.run(*arguments["begin"].values())
    modules["step"] = step = Step(model, state)
    states = [flatten(state)[0]]
    for position in range(1, past + 1):
        new = {"tokens": tokens[:, [position]], "position": torch.tensor(position), **source}
        arguments["step"] = new | {f"cache{n}": tensor for n, tensor in enumerate(states[-1])}
        states.append(step.run(*arguments["step"].values())[1])
    return modules, arguments, states


def is_constant(tensors: Sequence[Tensor]) -> bool:
    """Return whether a tensor has the same storage and shape after each token."""
    return len({(tensor.untyped_storage().data_ptr(), tensor.shape) for tensor in tensors}) == 1


def make_tokens(part: Any, batch: int, length: int) -> Tensor:
    """Make random tokens (B, T) for an encoder or a decoder."""
    draw = torch.Generator().manual_seed(0)
    words = part.dictionary
    return torch.randint(words.nspecial, len(words), (batch, length), generator=draw)
