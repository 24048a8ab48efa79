"""Models compiled by torch.compile or exported by torch.export compute the same."""

import pytest
import torch
from helpers import CLASSIFIERS, HEAD, make_any, source_batch
from make_checkpoints import MODELS, task_of


def build(arch):
    """A small model in evaluation and its arguments: sentences, two of them padded."""
    tokens, lengths = source_batch()
    call = {"src_tokens": tokens}
    if arch in CLASSIFIERS:
        call["classification_head_name"] = HEAD
    elif task_of(arch) == "translation":
        call |= {"src_lengths": lengths, "prev_output_tokens": tokens}
    return make_any(arch).eval(), call


@pytest.mark.slow
@pytest.mark.parametrize("arch", MODELS)
def test_compiled_models_compute_the_same(arch):
    """Compiled models equal eager ones, by a backend that needs no C compiler."""
    model, call = build(arch)
    with torch.no_grad():
        expected, _ = model(**call)
        actual, _ = torch.compile(model, backend="aot_eager")(**call)
    assert torch.allclose(actual, expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("arch", [arch for arch in MODELS if arch.startswith("transject")])
def test_transject_compiles_to_one_graph(arch):
    """No part of TransJect depends on the values of tensors, as fairseq's encoder does."""
    model, call = build(arch)
    with torch.no_grad():
        expected, _ = model(**call)
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        exported = torch.export.export(model, (), call, strict=True).module()
        for program in compiled, exported:
            assert torch.allclose(program(**call)[0], expected, atol=1e-4)
