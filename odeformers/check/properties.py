"""The properties of an architecture, each with a measure of how far a model is from having it.

A property is a function of a :class:`Subject`. Either it returns a difference, or it yields pairs
of evaluations that must have equal results, so that a difference can be located.
"""

import io
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from fairseq.models import BaseFairseqModel
from torch import Tensor

from fairseq_odeformers.checkpoints import Trained
from fairseq_odeformers.registry import Kind

from .location import Pair, find_difference, find_not_finite
from .subject import Decoding, Subject

DECODERS = (Kind.TRANSLATION, Kind.LANGUAGE_MODEL)
LENGTHS, TARGETS = (9, 5, 8), (7, 4, 6)  # lengths of random texts and of their translations
CAUSAL = "no token sees a later one"
BATCH = "the other texts of a batch change nothing"
PADDING = "padding changes nothing"
INCREMENTAL = "incremental decoding equals full decoding"


class Broken(Exception):
    """A model lacks a property.

    Attributes:
        locate: function that finds the module at fault, or returns "".
    """

    def __init__(self, message: str, locate: Callable[[], str] = str):
        super().__init__(message)
        self.locate = locate


class Skipped(Exception):
    """A property does not apply to a model; the message says why."""


@dataclass(frozen=True)
class Property:
    """A property that a model must have."""

    function: Callable[[Subject], float | Iterator[Pair]]
    name: str  # a statement that is true for models with the property
    bound: float  # the largest difference allowed between equal results
    advice: str  # the remedy for a model that lacks the property
    kinds: Sequence[Kind] = tuple(Kind)  # the kinds of models that must have the property
    decisive: bool = False  # without this property, the others have no meaning
    prerequisites: Sequence[str] = ()  # the names of properties on which this one depends
    slow: bool = False  # slower than all others together; ``compare`` leaves it out

    def measure(self, subject: Subject) -> float:
        """Measure the difference for a subject.

        Raises:
            Broken: the subject lacks the property, since a pair differs too much or is not finite.
            Skipped: the property does not apply to the subject.
        """
        result, largest = self.function(subject), 0.0
        if not isinstance(result, Iterator):
            return result
        for pair in result:
            largest = max(largest, difference(pair.first(), pair.second()))
            if largest > self.bound:
                pairs = self.function(subject)
                assert isinstance(pairs, Iterator)  # the first call also returned an iterator
                locate = partial(find_difference, pairs, self.bound)
                raise Broken(f"they differ by {largest:.1e}", locate)
        return largest


PROPERTIES: list[Property] = []


def register_property(*about, **more):
    """Add a function to the list of properties; the arguments are the fields of the property."""

    def add(function):
        PROPERTIES.append(Property(function, *about, **more))
        return function

    return add


def difference(ours: Iterable[Tensor], theirs: Iterable[Tensor]) -> float:
    """Return the largest difference between two lists of tensors; infinite if one contains NaN."""
    pairs = zip(ours, theirs)
    largest = torch.stack([(a.detach() - b.detach()).float().abs().max() for a, b in pairs]).max()
    return float("inf") if largest.isnan() else float(largest)  # Python's max drops NaN


def largest_entry(tensors: Iterable[Tensor]) -> float:
    return max(float(tensor.abs().max()) for tensor in tensors)


def check_finite(
    tensors: Mapping[str, Tensor], model: BaseFairseqModel, evaluate: Callable[[], object]
) -> None:
    """Check that tensors, given by name, are finite.

    Args:
        evaluate: function that repeats the computation, to find the module at fault.

    Raises:
        Broken: a tensor is not finite.
    """
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            locate = partial(find_not_finite, model, evaluate)
            raise Broken(f"{name} has NaN or infinity", locate)


def random_sample(subject: Subject) -> dict:
    """Make a sample of three texts of different lengths."""
    return subject.sample(subject.texts(*LENGTHS), subject.texts(*TARGETS, seed=3))


# --- properties on which all others depend -------------------------------------------


@register_property(
    "forward and backward are finite",
    0,
    "look for a division by zero, the logarithm or root of zero, or softmax over a row that is "
    "completely masked",
    decisive=True,
)
def finite(subject: Subject) -> float:
    """Search the outputs and gradients of a random batch in training for NaN and infinity."""
    model, sample = subject.training, random_sample(subject)
    evaluate = partial(subject.outputs, model, sample)
    texts = enumerate(evaluate(), 1)
    check_finite({f"the output for text {text}": out for text, out in texts}, model, evaluate)
    gradients = subject.gradients(model, sample).items()
    check_finite({f"the gradient of {name}": g for name, g in gradients}, model, evaluate)
    return 0.0


@register_property(
    "earlier batches change nothing",
    0,
    "keep nothing from one batch to the next: no counter, cache, running mean or random generator",
    decisive=True,
)
def stateless(subject: Subject) -> Iterator[Pair]:
    """Compare a fresh model with one that has evaluated another batch, with one seed for both."""
    sample = random_sample(subject)
    # The earlier batch has the same shape, in case something is kept by shape, but its words and
    # its padding differ.
    earlier = subject.sample(subject.texts(5, 9, 7), subject.texts(4, 7, 5, seed=3))

    def evaluate(model: BaseFairseqModel) -> list[Tensor]:
        random.seed(2)
        np.random.seed(2)
        torch.manual_seed(2)
        return subject.outputs(model, sample)

    for training in (False, True):
        random.seed(2)
        fresh = subject.build().train(training)
        random.seed(2)
        used = subject.build().train(training)
        subject.outputs(used, earlier)
        yield Pair(fresh, partial(evaluate, fresh), partial(evaluate, used), used)


@register_property(
    "two evaluations of a batch give the same numbers",
    0,
    "evaluation is random: pass training=self.training to F.dropout, and draw random numbers in "
    "forward only while self.training is true",
    decisive=True,
)
def repeatable(subject: Subject) -> Iterator[Pair]:
    """Compare two passes over one batch in evaluation mode, without a seed in between."""
    evaluate = partial(subject.outputs, subject.model, random_sample(subject))
    yield Pair(subject.model, evaluate, evaluate)


# --- what a text may depend on -------------------------------------------------------


@register_property(
    CAUSAL, 1e-5, "mask attention to later positions, and mix no positions otherwise", DECODERS
)
def causal(subject: Subject) -> Iterator[Pair]:
    """Change one token of a target, and compare the outputs that must not see it."""
    model, (source,) = subject.model, subject.texts(9)
    (target,) = subject.texts(9, seed=3)
    changed = target.clone()
    changed[5] = target[6]
    seen = slice(6)  # the first token is the start token
    reads = subject.kind is Kind.LANGUAGE_MODEL  # the targets are the inputs

    def evaluate(text: Tensor) -> list[Tensor]:
        sample = subject.sample([text if reads else source], [text])
        return [subject.outputs(model, sample)[0][seen]]

    whole, other = partial(evaluate, target), partial(evaluate, changed)
    yield Pair(model, whole, other, parts={(9, 9): seen})


@register_property(
    BATCH,
    1e-4,
    "normalise over the features of a token, and let no statistic or step size depend on the batch",
)
def batch(subject: Subject) -> Iterator[Pair]:
    """Compare each of three texts of equal length by itself with the same text in their batch."""
    yield from alone_and_together(subject, (8, 8, 8), (6, 6, 6))


@register_property(
    PADDING,
    1e-4,
    "keep padding out of attention, sums, means and step sizes; the encoder gets its mask",
    prerequisites=(CAUSAL, BATCH),
)
def padding(subject: Subject) -> Iterator[Pair]:
    """Compare as :func:`batch` does, with texts of different lengths, which the batch pads."""
    yield from alone_and_together(subject, LENGTHS, TARGETS)


def alone_and_together(
    subject: Subject, sizes: Sequence[int], target_sizes: Sequence[int]
) -> Iterator[Pair]:
    """Yield the evaluations of each text by itself and at its place in a batch of all texts."""
    sources, targets = subject.texts(*sizes), subject.texts(*target_sizes, seed=3)
    model, texts = subject.model, [*zip(sources, targets)]
    left_pad = subject.kind is Kind.TRANSLATION  # only sources

    def evaluate(place: int, *texts: tuple[Tensor, Tensor]) -> list[Tensor]:
        return [subject.outputs(model, subject.sample(*map(list, zip(*texts))))[place]]

    for index, (source, target) in enumerate(texts):
        unpadded = slice(-len(source), None) if left_pad else slice(len(source))
        parts = {
            (1, len(texts)): slice(index, index + 1),
            (len(source), max(sizes)): unpadded,
            (len(target), max(target_sizes)): slice(len(target)),
        }
        alone, together = partial(evaluate, 0, texts[index]), partial(evaluate, index, *texts)
        yield Pair(model, alone, together, parts=parts)


# --- training ------------------------------------------------------------------------


@register_property(
    "every parameter gets a gradient",
    0,
    "use it in forward (.detach(), no_grad and .data stop gradients), or do not register it; with "
    "several processes, unused parameters stop the training",
)
def gradient(subject: Subject) -> float:
    """Search for parameters whose gradient is 0 everywhere after one batch in training."""
    gradients = subject.gradients(subject.training, random_sample(subject))
    unused = [name for name, value in gradients.items() if not value.any()]
    if unused:
        others = " and others" if len(unused) > 3 else ""
        raise Broken(f"none for {', '.join(unused[:3])}{others}")
    return 0.0


@register_property(
    "two batches have the gradient of their union",
    1e-2,  # adaptive solvers take different steps
    "sum over texts and tokens, and let nothing depend on the size of the batch; --update-freq "
    "and several devices rely on it",
    prerequisites=(CAUSAL, BATCH, PADDING),
)
def additive(subject: Subject) -> float:
    """Use a batch of long texts and a batch of short texts, which their union pads."""
    model, texts = subject.model, subject.texts(9, 8, 4, 5)
    halves = [subject.sample(part, part) for part in (texts[:2], texts[2:])]
    whole = subject.gradients(model, subject.sample(texts, texts)).values()
    parts = subject.gradients(model, *halves).values()
    return difference(parts, whole) / largest_entry(whole)


@register_property(
    "the same seed gives the same numbers",
    0,
    "draw random numbers only from torch: fairseq seeds it for each update",
)
def seeded(subject: Subject) -> float:
    """Compare two models of one seed: their parameters, and their outputs in training."""
    sample, results = random_sample(subject), []
    for model in (subject.training, subject.build()):
        torch.manual_seed(2)
        results.append([*model.parameters(), *subject.outputs(model, sample)])
    return difference(*results)


# --- decoding ------------------------------------------------------------------------


@register_property(
    INCREMENTAL,
    1e-4,
    "each evaluation of a layer needs a cache of its own (RepeatedDecoderLayer has one), and "
    "positions count from the start of the text",
    DECODERS,
    prerequisites=(CAUSAL,),
)
def incremental(subject: Subject) -> Iterator[Pair]:
    """Decode token by token with caches, and compare each step with a pass over its prefix."""
    model, sources, tokens = decoding_inputs(subject)
    decoding = Decoding(subject, model, sources)
    for length in range(1, tokens.size(1) + 1):
        prefix = tokens[:, :length]
        full, step = partial(decoding.full, prefix), partial(decoding.step, prefix)
        yield Pair(model, full, step, parts={(length, 1): slice(-1, None)})


@register_property(
    "caches follow their beams",
    1e-4,
    "reorder everything that a layer keeps in the incremental state, in reorder_incremental_state",
    DECODERS,
    prerequisites=(BATCH,),
)
def beams(subject: Subject) -> Iterator[Pair]:
    """Drop a text and swap two while decoding, and compare with decoding in the new order."""
    model, sources, tokens = decoding_inputs(subject)
    order = [2, 0]  # one text has ended, and the other two swap places
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
    """Return a model, sources for a translator, and tokens (B, T) to decode after each source."""
    tokens = subject.collate(subject.texts(7, 7, 7, seed=3), move_eos_to_beginning=True)
    return subject.model, subject.texts(*LENGTHS), tokens


# --- files and precision -------------------------------------------------------------


@register_property(
    "a saved and reloaded model gives the same numbers",
    0,
    "register what is trained as parameters, and constants as buffers, under names that do not "
    "change",
)
def saved(subject: Subject) -> float:
    """Load the saved state into a model built with another seed, and compare the outputs."""
    model, other, file = subject.model, subject.build(seed=4), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    other.load_state_dict(state, strict=True, model_cfg=subject.cfg.model)
    sample = random_sample(subject)
    return difference(*(subject.outputs(m, sample) for m in (model, other.eval())))


@register_property(
    "half precision is close to single precision",
    0.1,
    "create tensors by x.new_zeros and the like, sum long rows in float32, and mask with -inf "
    "instead of a large number",
)
def half(subject: Subject) -> float:
    """Compare float16 and bfloat16 with float32, and search bfloat16's gradients for NaN."""
    sample, largest = random_sample(subject), 0.0
    single = subject.outputs(subject.model, sample)
    for dtype in (torch.float16, torch.bfloat16):
        model = subject.build().to(dtype)
        with torch.no_grad():
            outputs = subject.outputs(model.eval(), sample)
        largest = max(largest, difference(outputs, single) / largest_entry(single))
    evaluate = partial(subject.outputs, model.train(), sample)
    gradients = subject.gradients(model, sample).items()
    check_finite(
        {f"in bfloat16, the gradient of {name}": g for name, g in gradients}, model, evaluate
    )
    return largest


# --- deployment ----------------------------------------------------------------------


@register_property(
    "the model can be exported",
    1e-4,
    "keep only tensors from one token to the next, take no branch that depends on data, and define "
    "for_export() where a module cannot be exported",
    (*DECODERS, Kind.CLASSIFICATION),
    prerequisites=(CAUSAL, BATCH, PADDING, INCREMENTAL),
    slow=True,
)
def exports(subject: Subject) -> float:
    """Compare the model with the programs of ``odeformers export --to torch``, token by token."""
    from fairseq_odeformers.inference.deploy import write_folder
    from fairseq_odeformers.inference.program import make_exportable

    try:
        make_exportable(subject.build().eval())
    except ValueError as error:
        raise Skipped(str(error)) from error
    cfg: Any = subject.cfg
    trained = Trained(subject.build(), subject.task, cfg)
    with TemporaryDirectory() as folder:
        return write_folder(trained, subject.cfg.model._name, subject.kind, "torch", Path(folder))


DECISIVE = [prop.name for prop in PROPERTIES if prop.decisive]
