"""A decoder as functions of tensors: the first step of generation, the next ones, a whole text.

fairseq keeps what a decoder remembers of earlier tokens in a tree of dictionaries, its incremental
state. Here the tensors of that tree are arguments and results instead, so that torch can export the
functions of any decoder:

- :class:`Begin`: from the first token to log-probabilities of the second, and the tensors;
- :class:`Step`: from a token and the tensors to log-probabilities of the next, and the tensors;
- :class:`Score`: from a text to the log-probability of each of its tokens.

Some tensors stay as they were, such as the keys of the source: a step takes but does not return
them. Which dimensions vary is found by running the functions with other sizes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from fairseq_odeformers.models.common.answers import POSITION
from fairseq_odeformers.registry import Kind, kinds_of

Dims = tuple[str | None, ...]  # the count in each dimension of a tensor; None for a constant size


class Entry(NamedTuple):
    """A tensor that a step takes from the one before.

    Attributes:
        dims: ``batch``, ``source``, ``past`` (number of earlier tokens) and ``any`` are variable.
        constant: whether all steps take the same one.
    """

    dims: Dims
    constant: bool


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
        return log_probs, *tensors_of(state)

    def run(self, tokens: Tensor, *source: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """The same, with the state as fairseq has it."""
        state: dict[str, Any] = {}
        return self.advance(tokens, tokens.new_zeros(()), source, state), state


class Step(Part):
    """Any later step.

    Args:
        like: the state of an earlier step.

    Attributes:
        entries: describe the state; see :func:`find_entries`.
        width: C of the encoder's states, if only the first step reads these; None if all do.
    """

    entries: list[Entry]
    width: int | None = None

    def __init__(self, model: nn.Module, like: dict[str, Any]):
        super().__init__(model)
        leaves, self.spec = tree_flatten(like)
        self.holes = [leaf is None for leaf in leaves]

    def forward(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """Log-probabilities (B, V), and the tensors that change.

        Args:
            arguments: newest tokens (B, 1); the number of tokens before these (); of a translator
                the encoder's states, unless they are not read, and the mask; the state's tensors.
        """
        tokens, position, *others = arguments
        source, tensors = self.divide(others)
        log_probs, new = self.run(tokens, position, source, tensors)
        return log_probs, *(t for t, entry in zip(new, self.entries) if not entry.constant)

    def divide(self, others: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The source and the state; states that are not read are zeros."""
        if not self.translates:
            return [], [*others]
        if self.width is None:
            return [*others[:2]], [*others[2:]]
        mask = others[0]
        states = torch.zeros(1, 1, self.width).expand(*mask.shape, -1)
        return [states, mask], [*others[1:]]

    def run(
        self, tokens: Tensor, position: Tensor, source: Sequence[Tensor], tensors: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """The same with all of the state's tensors."""
        state = self.rebuild(tensors)
        log_probs = self.advance(tokens, position, source, state)
        leaves, spec = tree_flatten(state)
        if spec != self.spec or [leaf is None for leaf in leaves] != self.holes:
            raise ValueError("its decoder keeps other tensors after each step")
        return log_probs, tensors_of(state)

    def rebuild(self, tensors: Sequence[Tensor]) -> dict[str, Any]:
        """fairseq's incremental state, from its tensors."""
        each = iter(tensors)
        spec: TreeSpec = self.spec
        return tree_unflatten([None if hole else next(each) for hole in self.holes], spec)


class Score(Part):
    """The score of a whole text."""

    def forward(self, *arguments: Tensor) -> Tensor:
        """Log-probabilities (B, T) of targets (B, T), each after the tokens (B, T) up to it."""
        tokens, targets = arguments
        return self.log_probs(tokens, ()).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def tensors_of(state: dict[str, Any]) -> list[Tensor]:
    """The tensors of an incremental state, in its order."""
    return [leaf for leaf in tree_flatten(state)[0] if leaf is not None]


class Exported(NamedTuple):
    """A function that torch exports, with arguments, and their names and dimensions.

    Attributes:
        inputs: names of the arguments.
        outputs: names of the results.
        dims: each argument's dimensions.
    """

    module: nn.Module
    arguments: Sequence[Tensor]
    inputs: Sequence[str]
    outputs: Sequence[str]
    dims: Sequence[Dims]


ANY = "any"  # size of a dimension: such as a sum of others, which torch finds
SIZES = {"batch": 3, "source": 5, "past": 2}  # example arguments
TOKEN, TEXT = ("batch", None), ("batch", "length")
SOURCE = {"states": ("batch", "source", None), "mask": ("batch", "source")}


def make_steps(model: nn.Module) -> dict[str, Exported]:
    """The functions of a translator or language model, by their names.

    Args:
        model: see :func:`.make_exportable`.
    """
    begin = Begin(model)
    step, tokens, source, state = make_step(begin)
    caches = [f"cache{index}" for index in range(len(step.entries))]
    changing = [f"next{n}" for n, entry in enumerate(step.entries) if not entry.constant]
    names = [*SOURCE] if begin.translates else []
    first = ["tokens", *names]
    dims = [TOKEN, *(SOURCE[name] for name in names)]
    functions = {
        "begin": Exported(begin, [tokens[:, :1], *source], first, ["log_probs", *caches], dims)
    }
    if step.width is not None:
        names, source = names[1:], source[1:]
    functions["step"] = Exported(
        step,
        [tokens[:, -1:], torch.tensor(SIZES["past"]), *source, *state],
        ["tokens", "position", *names, *caches],
        ["log_probs", *changing],
        [TOKEN, (), *(SOURCE[name] for name in names), *(entry.dims for entry in step.entries)],
    )
    if begin.translates:
        texts = make_tokens(model.encoder, SIZES["batch"], SIZES["source"])
        functions["encoder"] = Exported(
            Encode(model), [texts], ["tokens"], ["states"], [("batch", "source")]
        )
    else:
        both = [tokens, tokens.clone()]
        functions["score"] = Exported(
            Score(model), both, ["tokens", "targets"], ["log_probs"], [TEXT, TEXT]
        )
    return functions


@torch.no_grad()
def make_step(begin: Begin) -> tuple[Step, Tensor, list[Tensor], list[Tensor]]:
    """The step that follows, and of :data:`SIZES` tokens (B, T), the source and the state."""
    runs = {name: run_steps(begin, {**SIZES, name: size + 4}) for name, size in SIZES.items()}
    step, tokens, source, states = run_steps(begin, SIZES)
    step.entries = find_entries(states, {name: run[-1][-1] for name, run in runs.items()})
    if begin.translates:
        encoded, mask = source
        arguments = tokens[:, -1:], torch.tensor(SIZES["past"])
        results = [
            step.run(*arguments, [each, mask], states[-1])
            for each in (encoded, torch.zeros_like(encoded))
        ]
        (first, kept), (second, others) = results
        if all(map(torch.equal, [first, *kept], [second, *others])):
            step.width = encoded.size(-1)
    return step, tokens, source, states[-1]


def run_steps(
    begin: Begin, sizes: Mapping[str, int]
) -> tuple[Step, Tensor, list[Tensor], list[list[Tensor]]]:
    """A step, random tokens (B, T) and their source, and the state after each token but the last.

    Args:
        sizes: number of texts (``batch``), tokens of each source, and tokens with a state.
    """
    model, source = begin.model, []
    tokens = make_tokens(model.decoder, sizes["batch"], sizes["past"] + 1)
    if begin.translates:
        texts = make_tokens(model.encoder, sizes["batch"], sizes["source"])
        source = [Encode(model)(texts), torch.zeros_like(texts, dtype=torch.bool)]
    _, state = begin.run(tokens[:, :1], *source)
    step, states = Step(model, state), [tensors_of(state)]
    for position in range(1, sizes["past"]):
        new = tokens[:, position : position + 1]
        states.append(step.run(new, torch.tensor(position), source, states[-1])[1])
    return step, tokens, source, states


def make_tokens(part: Any, batch: int, length: int) -> Tensor:
    """Random tokens (B, T) for an encoder or a decoder."""
    draw = torch.Generator().manual_seed(0)
    words = part.dictionary
    return torch.randint(words.nspecial, len(words), (batch, length), generator=draw)


def find_entries(
    states: Sequence[Sequence[Tensor]], others: Mapping[str, Sequence[Tensor]]
) -> list[Entry]:
    """The entries of a state.

    Args:
        states: after each token; a constant entry is the same tensor, or a view of it.
        others: the state after the last token, with another size of each name.
    """
    entries = []
    for index, tensor in enumerate(states[-1]):
        dims = []
        for dim, size in enumerate(tensor.shape):
            names = [name for name, other in others.items() if other[index].size(dim) != size]
            known = len(names) == 1 and size == SIZES[names[0]]
            dims.append(names[0] if known else ANY if names else None)
        storages = {state[index].untyped_storage().data_ptr() for state in states}
        entries.append(Entry(tuple(dims), len(storages) == 1 and "past" not in dims))
    return entries
