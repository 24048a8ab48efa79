"""A decoder as functions of tensors: the first step of generation, the next ones, a whole text.

fairseq keeps what a decoder remembers of earlier tokens in a tree of dictionaries, its incremental
state. Here the tensors of that tree are arguments and results instead, so that torch can export the
functions of any decoder:

- :class:`Begin`: from the first token to log-probabilities of the second, and the tensors;
- :class:`Step`: from a token and the tensors to log-probabilities of the next, and new tensors;
- :class:`Score`: from a text to the log-probability of each of its tokens.

A step does not return tensors that stay as they were, such as the keys of the source. Running
the functions shows which these are, and which sizes vary.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from fairseq_odeformers.models.common.answers import POSITION
from fairseq_odeformers.registry import Kind, kinds_of

BATCHES = (3, 4)  # texts in the two examples of a function's arguments


class Function(NamedTuple):
    """A function to export.

    Attributes:
        module: its ``forward(*arguments)`` takes the values of *arguments* in their order.
        arguments: example tensors by name, for ``BATCHES[0]`` texts.
        others: the same for ``BATCHES[1]`` texts; all sizes that vary are different.
        outputs: names of the results. One that is also the name of an argument takes its place in
            the next call.
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
        """The dimension of each argument that counts texts, if there is one, and the results."""
        dims = {n: s.index(BATCHES) if BATCHES in s else None for n, s in self.sizes.items()}
        return {"inputs": dims, "outputs": self.outputs}


class Part(nn.Module):
    """The decoder of a model, with what its kind of model gives it beside tokens.

    Attributes:
        translates: whether there is a source: the encoder's states (B, S, C), and a mask (B, S)
            that is true where padding is.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model: Any = model
        self.translates = Kind.TRANSLATION in kinds_of(type(model))

    def log_probs(self, tokens: Tensor, source: Sequence[Tensor], state: Any = None) -> Tensor:
        """Log-probabilities (B, T, V) of what follows each token (B, T)."""
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
        """Log-probabilities (B, V) of what follows the newest token (B, 1); changes the state."""
        state[POSITION] = {POSITION: position}
        log_probs = self.log_probs(tokens, source, state)[:, -1]
        del state[POSITION]
        return log_probs


class Encode(Part):
    """The encoder of a translator."""

    def forward(self, *arguments: Tensor) -> Tensor:
        """The states (B, S, C) of tokens (B, S)."""
        (tokens,) = arguments
        lengths = tokens.ne(self.model.encoder.dictionary.pad()).sum(1)
        return self.model.encoder(tokens, lengths)["encoder_out"][0].transpose(0, 1)


class Begin(Part):
    """The first step."""

    def forward(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """Log-probabilities (B, V), and the state's tensors, of first tokens (B, 1)."""
        log_probs, state = self.run(*arguments)
        return log_probs, *flatten(state)[0]

    def run(self, tokens: Tensor, *source: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """The same, with the state as fairseq has it."""
        state: dict[str, Any] = {}
        return self.advance(tokens, tokens.new_zeros(()), source, state), state


class Step(Part):
    """Any later step.

    Args:
        like: the state after the first one.

    Attributes:
        changing: which of the state's tensors a step changes; the others are not returned.
    """

    changing: Sequence[int]

    def __init__(self, model: nn.Module, like: dict[str, Any]):
        super().__init__(model)
        _, self.form = flatten(like)

    def forward(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """Log-probabilities (B, V), and the tensors that change; for arguments see :meth:`run`."""
        log_probs, new = self.run(*arguments)
        return log_probs, *(new[index] for index in self.changing)

    def run(self, tokens: Tensor, position: Tensor, *others: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Log-probabilities (B, V), and all of the state's tensors.

        Args:
            tokens: newest tokens (B, 1).
            position: the number of tokens before these ().
            others: a translator's source, and the state's tensors.
        """
        source, tensors = (others[:2], others[2:]) if self.translates else ((), others)
        each, (spec, holes) = iter(tensors), self.form
        state = tree_unflatten([None if hole else next(each) for hole in holes], spec)
        log_probs = self.advance(tokens, position, source, state)
        new, form = flatten(state)
        if form != self.form:
            raise ValueError("its decoder keeps other tensors after each step")
        return log_probs, new


class Score(Part):
    """The score of a whole text."""

    def forward(self, *arguments: Tensor) -> Tensor:
        """Log-probabilities (B, T) of targets (B, T), each after the tokens (B, T) up to it."""
        tokens, targets = arguments
        return self.log_probs(tokens, ()).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def flatten(state: dict[str, Any]) -> tuple[list[Tensor], Any]:
    """The tensors of an incremental state, in its order, and the form without them."""
    leaves, spec = tree_flatten(state)
    holes = [leaf is None for leaf in leaves]
    return [leaf for leaf in leaves if leaf is not None], (spec, holes)


@torch.no_grad()
def make_steps(model: nn.Module) -> dict[str, Function]:
    """The functions of a translator or language model, by their names.

    Args:
        model: see :func:`.make_exportable`.
    """
    (modules, arguments, states), (_, others, _) = (
        run_steps(model, *sizes) for sizes in zip(BATCHES, (5, 9), (2, 6))
    )
    modules["step"].changing = [n for n, kept in enumerate(zip(*states)) if not is_constant(kept)]
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
    """The functions and their arguments, and the state after each token but the last.

    Args:
        batch: number of random texts.
        length: tokens of a source.
        past: tokens of a text before the last.
    """
    begin = Begin(model)
    modules: dict[str, Any] = {"begin": begin}
    arguments, source = {}, {}
    tokens = make_tokens(model.decoder, batch, past + 1)
    if begin.translates:
        modules["encoder"] = Encode(model)
        arguments["encoder"] = {"tokens": make_tokens(model.encoder, batch, length)}
        states = modules["encoder"](arguments["encoder"]["tokens"])
        source = {"states": states, "mask": torch.zeros(batch, length, dtype=torch.bool)}
    else:
        modules["score"] = Score(model)
        arguments["score"] = {"tokens": tokens, "targets": tokens.clone()}
    arguments["begin"] = {"tokens": tokens[:, :1], **source}
    _, state = begin.run(*arguments["begin"].values())
    modules["step"] = step = Step(model, state)
    kept = [flatten(state)[0]]
    for position in range(1, past + 1):
        new = {"tokens": tokens[:, [position]], "position": torch.tensor(position), **source}
        arguments["step"] = new | {f"cache{n}": tensor for n, tensor in enumerate(kept[-1])}
        kept.append(step.run(*arguments["step"].values())[1])
    return modules, arguments, kept


def is_constant(kept: Sequence[Tensor]) -> bool:
    """Whether a tensor is the same, or a view of all of it, after each token."""
    return len({(tensor.untyped_storage().data_ptr(), tensor.shape) for tensor in kept}) == 1


def make_tokens(part: Any, batch: int, length: int) -> Tensor:
    """Random tokens (B, T) for an encoder or a decoder."""
    draw = torch.Generator().manual_seed(0)
    words = part.dictionary
    return torch.randint(words.nspecial, len(words), (batch, length), generator=draw)
