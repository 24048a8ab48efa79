"""The properties of an architecture, each with a measure of how far a model is from having it."""

import io
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from fairseq.models import BaseFairseqModel
from torch import Tensor

from fairseq_odeformers.models.common.kinds import Kind

from .subject import Decoding, Subject


class Broken(Exception):
    """A model lacks a property in a way that no number tells."""


class NotFinite(Broken):
    """A number is NaN or infinity.

    Attributes:
        evaluate: computes it again.
        model: whose modules may be to blame.
    """

    def __init__(self, name: str, model: BaseFairseqModel, evaluate: Callable[[], object]):
        super().__init__(f"{name} has NaN or infinity")
        self.model, self.evaluate = model, evaluate


@dataclass(frozen=True)
class Pair:
    """Two evaluations of a model, or of a copy in the second; their results must be equal."""

    model: BaseFairseqModel
    first: Callable[[], Iterable[Tensor]]
    second: Callable[[], Iterable[Tensor]]
    copy: BaseFairseqModel | None = None
    # What must be equal inside the model, too: of a dimension with these two sizes, the slice of
    # the longer one.
    parts: Mapping[tuple[int, int], slice] = field(default_factory=dict)


class Differs(Broken):
    """The results of two evaluations differ.

    Attributes:
        pairs: makes all pairs of evaluations that the property compares.
        bound: the largest difference that counts as none.
    """

    def __init__(self, largest: float, pairs: Callable[[], Iterator[Pair]], bound: float):
        super().__init__(f"they differ by {largest:.1e}")
        self.pairs, self.bound = pairs, bound


@dataclass(frozen=True)
class Property:
    """A property that a model must have."""

    measure: Callable[[Subject], float]  # the difference for a subject
    name: str  # what is true of a model that has it
    bound: float  # the largest difference between what must be equal
    advice: str  # what to look for in a model that lacks it
    kinds: Sequence[Kind] = tuple(Kind)  # that must have it
    decisive: bool = False  # the others say nothing of a model that lacks it
    premises: Sequence[str] = ()  # the names of properties without which it cannot be judged


PROPERTIES: list[Property] = []


def holds(*about, **more):
    """Add a function that measures a property to the list; the arguments are the other fields."""

    def add(measure: Callable[[Subject], float]) -> Callable[[Subject], float]:
        PROPERTIES.append(Property(measure, *about, **more))
        return measure

    return add


def holds_of_pairs(name: str, bound: float, *about, **more):
    """The same for a function that makes pairs of evaluations: a difference can be traced."""

    def add(pairs: Callable[[Subject], Iterator[Pair]]) -> None:
        def measure(subject: Subject) -> float:
            largest = 0.0
            for pair in pairs(subject):
                largest = max(largest, difference(pair.first(), pair.second()))
                if largest > bound:
                    raise Differs(largest, lambda: pairs(subject), bound)
            return largest

        holds(name, bound, *about, **more)(measure)

    return add


DECODERS = (Kind.TRANSLATION, Kind.LANGUAGE_MODEL)
LENGTHS = (9, 5, 8)
CAUSAL = "no token sees a later one"
BATCH = "the other texts of a batch change nothing"


def difference(ours: Iterable[Tensor], theirs: Iterable[Tensor]) -> float:
    """The largest difference between two lists of tensors; infinite where one is no number."""
    pairs = zip(ours, theirs)
    largest = torch.stack([(a.detach() - b.detach()).float().abs().max() for a, b in pairs]).max()
    return float("inf") if largest.isnan() else float(largest)  # Python's max drops NaN


def relative_difference(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """The same of tensors by name, over the largest entry of all."""
    scale = max(float(tensor.abs().max()) for tensor in theirs.values())
    return difference(ours.values(), theirs.values()) / scale


def check_finite(
    tensors: Mapping[str, Tensor], model: BaseFairseqModel, evaluate: Callable[[], object]
) -> None:
    """Raise :class:`NotFinite` for the first tensor, by name, that is not finite."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise NotFinite(name, model, evaluate)


# --- without which the others say nothing --------------------------------------------


@holds(
    "forward and backward are finite",
    0,
    "look for a division by zero, the logarithm or root of zero, or softmax of a row that is "
    "masked completely",
    decisive=True,
)
def finite(subject: Subject) -> float:
    model, sample = subject.build(), random_sample(subject)
    evaluate = partial(subject.outputs, model, sample)
    texts = enumerate(evaluate(), 1)
    check_finite({f"the output for text {text}": out for text, out in texts}, model, evaluate)
    gradients = subject.gradients(model, sample).items()
    check_finite({f"the gradient of {name}": g for name, g in gradients}, model, evaluate)
    return 0.0


@holds_of_pairs(
    "earlier batches change nothing",
    0,
    "keep nothing from one batch to the next: no counter, cache, running mean or random generator",
    decisive=True,
)
def stateless(subject: Subject) -> Iterator[Pair]:
    sample = random_sample(subject)
    random.seed(2)
    fresh = subject.build().eval()
    random.seed(2)
    used = subject.build().eval()
    # Of the same shape, so that what is kept by it is kept; with other words and other padding.
    subject.outputs(used, subject.sample(subject.texts(5, 9, 7), subject.texts(4, 7, 5, seed=3)))

    def evaluate(model: BaseFairseqModel) -> list[Tensor]:
        random.seed(2)
        np.random.seed(2)
        torch.manual_seed(2)
        return subject.outputs(model, sample)

    yield Pair(fresh, partial(evaluate, fresh), partial(evaluate, used), used)


@holds_of_pairs(
    "two evaluations of a batch give the same numbers",
    0,
    "evaluation is random: pass training=self.training to F.dropout, and draw random numbers in "
    "forward only while self.training is true",
    decisive=True,
)
def repeatable(subject: Subject) -> Iterator[Pair]:
    evaluate = partial(subject.outputs, subject.model, random_sample(subject))
    yield Pair(subject.model, evaluate, evaluate)


# --- training ------------------------------------------------------------------------


@holds(
    "every parameter gets a gradient",
    0,
    "use it in forward, or do not register it; with several processes, unused parameters end "
    "training",
)
def gradient(subject: Subject) -> float:
    gradients = subject.gradients(subject.build(), random_sample(subject))
    unused = [name for name, value in gradients.items() if not value.any()]
    if unused:
        raise Broken(f"none for {', '.join(unused[:3])}" + " and others" * (len(unused) > 3))
    return 0.0


@holds(
    "two batches have the gradient of one with their texts",
    1e-2,  # adaptive solvers have other steps
    "sum over texts and tokens, and let nothing depend on the size of the batch; --update-freq "
    "and several devices rely on it",
)
def additive(subject: Subject) -> float:
    model, texts = subject.model, subject.texts(8, 8, 8, 8)
    halves = [subject.sample(part, part) for part in (texts[:2], texts[2:])]
    whole = subject.gradients(model, subject.sample(texts, texts))
    return relative_difference(subject.gradients(model, *halves), whole)


@holds(
    "the same seed gives the same numbers",
    0,
    "draw random numbers by torch alone: fairseq seeds it for each update",
)
def seeded(subject: Subject) -> float:
    sample, found = random_sample(subject), []
    for _ in range(2):
        model = subject.build()
        torch.manual_seed(2)
        found.append([*model.parameters(), *subject.outputs(model, sample)])
    return difference(*found)


# --- what a text may depend on -------------------------------------------------------


@holds_of_pairs(
    CAUSAL,
    1e-5,
    "mask attention to later positions, and mix no positions otherwise",
    DECODERS,
)
def causal(subject: Subject) -> Iterator[Pair]:
    model, (source,) = subject.model, subject.texts(9)
    (target,) = subject.texts(9, seed=3)
    changed = target.clone()
    changed[5] = target[6]
    seen = slice(6)  # the first token is the start
    reads = subject.kind is Kind.LANGUAGE_MODEL  # its targets are its inputs

    def evaluate(text: Tensor) -> list[Tensor]:
        sample = subject.sample([text if reads else source], [text])
        return [subject.outputs(model, sample)[0][seen]]

    whole, other = partial(evaluate, target), partial(evaluate, changed)
    yield Pair(model, whole, other, parts={(9, 9): seen})


@holds_of_pairs(
    BATCH,
    1e-4,
    "normalise over the features of a token, and let no statistic or step size depend on the batch",
)
def batch(subject: Subject) -> Iterator[Pair]:
    return alone_and_together(subject, subject.texts(8, 8, 8), subject.texts(6, 6, 6, seed=3))


@holds_of_pairs(
    "padding changes nothing",
    1e-4,
    "keep padding out of attention, of sums, of means and of the size of steps; the encoder gets "
    "its mask",
    premises=(CAUSAL, BATCH),
)
def padding(subject: Subject) -> Iterator[Pair]:
    texts = subject.texts(*LENGTHS)
    return alone_and_together(subject, texts, subject.texts(7, 4, 6, seed=3))


def alone_and_together(
    subject: Subject, sources: list[Tensor], targets: list[Tensor]
) -> Iterator[Pair]:
    """Each text alone, and in its place of a batch of all."""
    model, texts = subject.model, [*zip(sources, targets)]
    left_pad = subject.kind is Kind.TRANSLATION  # of sources

    def evaluate(place: int, *texts: tuple[Tensor, Tensor]) -> list[Tensor]:
        return [subject.outputs(model, subject.sample(*map(list, zip(*texts))))[place]]

    for index, (source, target) in enumerate(texts):
        unpadded = slice(-len(source), None) if left_pad else slice(len(source))
        parts = {
            (1, len(texts)): slice(index, index + 1),
            (len(source), max(map(len, sources))): unpadded,
            (len(target), max(map(len, targets))): slice(len(target)),
        }
        alone, together = partial(evaluate, 0, texts[index]), partial(evaluate, index, *texts)
        yield Pair(model, alone, together, parts=parts)


# --- decoding ------------------------------------------------------------------------


@holds_of_pairs(
    "incremental decoding equals full decoding",
    1e-4,
    "each evaluation of a layer needs a cache of its own (RepeatedDecoderLayer has one), and "
    "positions count from the start of the text",
    DECODERS,
    premises=(CAUSAL,),
)
def incremental(subject: Subject) -> Iterator[Pair]:
    model, sources, tokens = decoding_inputs(subject)
    decoding = Decoding(subject, model, sources)
    for length in range(1, tokens.size(1) + 1):
        prefix = tokens[:, :length]
        full, step = partial(decoding.full, prefix), partial(decoding.step, prefix)
        yield Pair(model, full, step, parts={(length, 1): slice(-1, None)})


@holds_of_pairs(
    "caches follow their beams",
    1e-4,
    "reorder all that a layer keeps in the incremental state, in reorder_incremental_state",
    DECODERS,
    premises=(BATCH,),
)
def beams(subject: Subject) -> Iterator[Pair]:
    model, sources, tokens = decoding_inputs(subject)
    order = [2, 0]  # one text is finished, and two change places
    reordered, expected = (
        Decoding(subject, model, texts) for texts in (sources, [sources[index] for index in order])
    )
    for length in range(1, tokens.size(1)):
        reordered.step(tokens[:, :length])
        expected.step(tokens[order, :length])
    reordered.reorder(torch.tensor(order))
    last = tokens[order]
    yield Pair(model, partial(expected.step, last), partial(reordered.step, last))


def decoding_inputs(subject: Subject) -> tuple[BaseFairseqModel, list[Tensor], Tensor]:
    """A model, the sources that a translator reads, and tokens (B, T) to follow each of them."""
    tokens = subject.collate(subject.texts(7, 7, 7, seed=3), move_eos_to_beginning=True)
    return subject.model, subject.texts(*LENGTHS), tokens


# --- files and precision -------------------------------------------------------------


@holds(
    "a saved model computes the same once loaded",
    0,
    "register what is trained as parameters, and constants as buffers, under names that do not "
    "change",
)
def saved(subject: Subject) -> float:
    model, other, file = subject.model, subject.build(seed=4), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    other.load_state_dict(state, strict=True, model_cfg=subject.cfg.model)
    sample = random_sample(subject)
    return difference(*(subject.outputs(m, sample) for m in (model, other.eval())))


@holds(
    "half precision is close to single precision",
    0.1,
    "make new tensors by x.new_zeros and the like, sum long rows in float32, and mask with "
    "-inf instead of a large number",
)
def half(subject: Subject) -> float:
    sample, largest = random_sample(subject), 0.0
    with torch.no_grad():
        single = subject.outputs(subject.model, sample)
        scale = max(float(out.abs().max()) for out in single)
        for dtype in (torch.bfloat16, torch.float16):
            outputs = subject.outputs(subject.build().eval().to(dtype), sample)
            largest = max(largest, difference(outputs, single) / scale)
    model = subject.build().to(torch.bfloat16)
    evaluate = partial(subject.outputs, model, sample)
    gradients = subject.gradients(model, sample).items()
    check_finite(
        {f"in bfloat16, the gradient of {name}": g for name, g in gradients}, model, evaluate
    )
    return largest


def random_sample(subject: Subject) -> dict:
    """Three texts of different lengths."""
    return subject.sample(subject.texts(*LENGTHS), subject.texts(7, 4, 6, seed=3))
