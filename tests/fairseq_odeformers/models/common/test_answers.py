"""Modules answer for themselves, or their parts do; families declare their papers and colours."""

import sys
from types import ModuleType

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY, BaseFairseqModel
from helpers import CLASSIFIERS, make_classifier
from torch import nn

from fairseq_odeformers.models.common.answers import ask
from fairseq_odeformers.registry import Family, declared_family, paper_of, paper_order

PACKAGE = "fairseq_odeformers."


class Answering(nn.Sequential):
    def projections(self):
        yield "mine"


def test_parts_of_an_answering_module_are_not_asked():
    inner, outer = Answering(nn.Linear(2, 2)), Answering(Answering())
    assert [*ask(nn.Sequential(nn.ReLU(), inner, outer), "projections")] == [inner, outer]
    assert not ask(inner, "attention_maps")


@pytest.mark.parametrize("arch", CLASSIFIERS)
def test_a_layer_or_block_of_each_family_answers(arch):
    """Answers come in the order of the layers. TransJect has experts instead of attention maps."""
    model = make_classifier(arch)
    layers = [*model.encoder.layers]
    question = "layer_parts" if arch.startswith("transject") else "attention_maps"
    answering = [*ask(model.encoder, question)]
    for layer, module in zip(layers, answering, strict=len(answering) == len(layers)):
        assert module in [*layer.modules()]
    assert len(answering) >= len(layers)


def test_a_plugin_declares_its_family_in_its_package(monkeypatch):
    package = ModuleType("plugin_of_a_test")
    package.FAMILY = Family("Damped Transformer", "Own et al.", 2026, color="teal")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    model = type("Damped", (BaseFairseqModel,), {"__module__": f"{package.__name__}.models"})
    monkeypatch.setitem(ARCH_MODEL_REGISTRY, "damped_transformer", model)
    assert paper_of("damped_transformer") == "Damped Transformer (Own et al. 2026)"


def test_each_paper_has_its_own_colour():
    families = {declared_family(model) for model in ARCH_MODEL_REGISTRY.values()} - {None}
    papers = {family.paper: family.color for family in families if family.year}
    assert len({*papers.values()}) == len(papers) >= 7


def test_papers_are_ordered_by_their_arxiv_numbers():
    archs = sorted(ARCH_MODEL_REGISTRY, key=paper_order)
    families = [declared_family(ARCH_MODEL_REGISTRY[arch]) for arch in archs]
    papers = [*dict.fromkeys(family for family in families if family and family.year)]
    numbers = [family.arxiv for family in papers]
    assert numbers == sorted(numbers) and len(papers) >= 10
    assert [family.year for family in papers] == [2000 + int(number[:2]) for number in numbers]
    assert [family.name for family in papers][-2:] == ["YuriiFormer", "TMMFormer"]


def test_every_architecture_of_this_package_has_a_family():
    """A model without a family would be listed among the user's own, and have no colour."""
    ours = {n: m for n, m in ARCH_MODEL_REGISTRY.items() if m.__module__.startswith(PACKAGE)}
    assert len(ours) > 50 and not [name for name, m in ours.items() if not declared_family(m)]
