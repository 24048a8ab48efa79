"""A fault of ten times a property's bound fails in its row alone, one of a tenth in none.

Each fault is tested on every kind of model that its property is for. The models are pre-norm
Transformers with the fault in their only layer, and a Macaron BERT with the fault in the second
layer.
"""

import random
import re

import numpy as np
import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY, register_model
from torch import nn

from fairseq_odeformers.registry import Kind
from odeformers.check.command import check
from odeformers.check.properties import PROPERTIES

MT, LM, BERT, CLASSES = Kind.TRANSLATION, Kind.LANGUAGE_MODEL, Kind.MASKED_LM, Kind.CLASSIFICATION
BASES = {
    MT: "transformer_prenorm",
    LM: "transformer_lm_prenorm",
    BERT: "macaron_bert",
    CLASSES: "transformer_classifier_prenorm",
}


class Fault:
    """A change of the output (T, B, C) of a layer.

    Attributes:
        in_decoder: whether it is in a translator's decoder, rather than in its encoder.
    """

    in_decoder = False

    def __init__(self, size):
        self.size = size

    def add_to(self, layer):
        fault = self

        class Faulty(type(layer)):
            def forward(self, x, *args, **kwargs):
                return fault.forward(super().forward, self, x, *args, **kwargs)

        layer.__class__ = Faulty
        self.prepare(layer)

    def prepare(self, layer):
        pass

    def forward(self, evaluate, layer, x, *args, **kwargs):
        out = evaluate(x, *args, **kwargs)
        if isinstance(out, tuple):
            return self.change(layer, out[0], kwargs), *out[1:]
        return self.change(layer, out, kwargs)

    def change(self, layer, x, kwargs):
        return x


def pattern(x):
    """Numbers (C) that LayerNorm does not remove."""
    return torch.linspace(-1, 1, x.size(-1)).sin().to(x)


class LooksAhead(Fault):
    """Adds the next token's state."""

    in_decoder = True

    def change(self, layer, x, kwargs):
        return x + self.size * torch.cat([x[1:], torch.zeros_like(x[:1])])


class SeesPadding(Fault):
    """Adds the mean over the padding."""

    def change(self, layer, x, kwargs):
        mask = kwargs.get("self_attn_padding_mask", kwargs.get("encoder_padding_mask"))
        if mask is None:
            return x
        padding = mask.T.unsqueeze(-1).to(x)
        return x + self.size * (x * padding).sum(0) / padding.sum(0).clamp(min=1)


class SeesFirstText(Fault):
    def change(self, layer, x, kwargs):
        return x + self.size * x[:, :1]


class ScalesGradients(Fault):
    """By the size of the batch, padding included."""

    def change(self, layer, x, kwargs):
        scaled = self.size * x.size(0) * x.size(1) / 9 * x
        return x + (scaled - scaled.detach())


class ForgetsCache(Fault):
    in_decoder = True

    def forward(self, evaluate, layer, x, source=None, mask=None, state=None, **kwargs):
        out, *rest = evaluate(x, source, mask, state, **kwargs)
        if state is not None:
            out = out.lerp(evaluate(x, source, mask, None, **kwargs)[0], self.size)
        return out, *rest


class TruncatesCache(Fault):
    """Keeps the reordered cache only partly, beside the rows that were there."""

    in_decoder = True

    def prepare(self, layer):
        fault = self

        class Truncating(type(layer.self_attn)):
            def reorder_incremental_state(self, state, order):
                before = dict(self._get_input_buffer(state))
                super().reorder_incremental_state(state, order)
                after = self._get_input_buffer(state)
                for name in ("prev_key", "prev_value"):
                    after[name] = after[name].lerp(before[name][: len(order)], fault.size)
                self._set_input_buffer(state, after)

        layer.self_attn.__class__ = Truncating


class RoundsHalf(Fault):
    in_decoder = True

    def change(self, layer, x, kwargs):
        return x if x.dtype is torch.float32 else x + self.size * pattern(x)


class HasUnused(Fault):
    def prepare(self, layer):
        layer.unused = nn.Parameter(torch.ones(3))


class MakesNaN(Fault):
    def change(self, layer, x, kwargs):
        return torch.cat([x[:, :-1], x[:, -1:] * torch.nan], 1)


class KeepsBatch(Fault):
    """Adds the first batch of each shape to all later ones."""

    def prepare(self, layer):
        layer.kept = {}

    def change(self, layer, x, kwargs):
        return x + self.size * layer.kept.setdefault(x.shape, x.detach())


class KeepsMean(Fault):
    """Adds a running mean that is updated in training."""

    def prepare(self, layer):
        layer.mean = torch.zeros(())

    def change(self, layer, x, kwargs):
        if not layer.training:
            return x
        layer.mean = layer.mean.to(x).lerp(x.detach().square().mean(), 0.1)
        return x + self.size * layer.mean * pattern(x)


class DrawsNoise(Fault):
    def change(self, layer, x, kwargs):
        return x * (1 + self.size * np.random.rand())


class DrawsUnseeded(Fault):
    """In training."""

    def change(self, layer, x, kwargs):
        return x + layer.training * self.size * random.random() * pattern(x)


class IsNotSaved(Fault):
    def prepare(self, layer):
        layer.factor = torch.rand(1).item()

    def change(self, layer, x, kwargs):
        return x + self.size * layer.factor * pattern(x)


ALL, DECODERS = (MT, LM, BERT, CLASSES), (MT, LM)
# The property, and the size of ten times its bound by kind.
MEASURED = {
    LooksAhead: ("no token sees a later one", {MT: 3e-5, LM: 4e-5}),
    SeesPadding: ("padding changes nothing", {MT: 1.5e-3, LM: 5e-4, BERT: 1.5e-3, CLASSES: 2e-3}),
    SeesFirstText: (
        "the other texts of a batch change nothing",
        {MT: 1e-3, LM: 3e-4, BERT: 8e-4, CLASSES: 2.5e-3},
    ),
    ScalesGradients: (
        "two batches have the gradient of their union",
        {MT: 0.3, LM: 0.07, BERT: 0.2, CLASSES: 0.3},
    ),
    ForgetsCache: ("incremental decoding equals full decoding", {MT: 1.5e-3, LM: 1e-3}),
    TruncatesCache: ("caches follow their beams", {MT: 2e-3, LM: 1.5e-3}),
    RoundsHalf: (
        "half precision is close to single precision",
        {MT: 4, LM: 3, BERT: 4, CLASSES: 6},
    ),
}
# Any fault of these fails; the size of one that is small.
EXACT = {
    HasUnused: ("every parameter gets a gradient", 0),
    MakesNaN: ("forward and backward are finite", 0),
    KeepsBatch: ("earlier batches change nothing", 1e-4),
    KeepsMean: ("earlier batches change nothing", 1e-3),
    DrawsNoise: ("two evaluations of a batch give the same numbers", 1e-4),
    DrawsUnseeded: ("the same seed gives the same numbers", 1e-4),
    IsNotSaved: ("a saved and reloaded model gives the same numbers", 1e-4),
}
JUDGED = [prop for prop in PROPERTIES if not prop.slow]  # by verdicts()
BOUNDS = {prop.name: prop.bound for prop in JUDGED}


def verdicts(kind, name, *faults):
    """The verdicts of ``check`` on a model of a kind with faults of given sizes."""
    base = BASES[kind]

    class Model(ARCH_MODEL_REGISTRY[base]):
        @classmethod
        def build_model(cls, cfg, task):
            model = super().build_model(cfg, task)
            for fault, size in faults:
                decoder = kind is LM or (kind is MT and fault.in_decoder)
                stack = model.decoder if decoder else model.encoder
                fault(size).add_to(getattr(stack, "sentence_encoder", stack).layers[-1])
            return model

    arch = f"{name}_{kind.name.lower()}"
    config = type(f"Config_{arch}", (MODEL_DATACLASS_REGISTRY[base],), {})
    register_model(arch, dataclass=config)(Model)
    sides = {MT: ("encoder", "decoder"), LM: ("decoder",), CLASSES: ("encoder",)}
    one_layer = [word for side in sides.get(kind, ()) for word in (f"--{side}-layers", "1")]
    return {verdict.name: verdict for verdict in check(arch, *one_layer)}


def failing(found):
    return {name for name, verdict in found.items() if verdict.fault}


def test_every_property_has_a_fault():
    names = {name for name, _ in [*MEASURED.values(), *EXACT.values()]}
    assert names == BOUNDS.keys()
    for prop in JUDGED:
        (kinds,) = [sizes for name, sizes in MEASURED.values() if name == prop.name] or [ALL]
        assert {*kinds} == {*prop.kinds}


@pytest.mark.parametrize(
    "fault, kind", [(fault, kind) for fault, (_, sizes) in MEASURED.items() for kind in sizes]
)
def test_ten_times_the_bound_fails_only_its_row(fault, kind):
    name, sizes = MEASURED[fault]
    by_name = verdicts(kind, fault.__name__, (fault, sizes[kind]))
    assert failing(by_name) == {name}
    measured = re.search(r"\d\.\de[-+]\d+", by_name[name].fault + by_name[name].shown)[0]
    assert 5 < float(measured) / BOUNDS[name] < 20


@pytest.mark.parametrize("kind", ALL)
def test_a_tenth_of_every_bound_passes(kind):
    small = [(f, sizes[kind] / 100) for f, (_, sizes) in MEASURED.items() if kind in sizes]
    assert not failing(verdicts(kind, "small_faults", *small))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("fault", EXACT)
def test_any_difference_fails_an_exact_property(fault, kind):
    name, size = EXACT[fault]
    assert failing(verdicts(kind, fault.__name__, (fault, size))) == {name}
