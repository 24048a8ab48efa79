"""Architectures compute the same on a GPU as on a CPU, and train there in half precision."""

from functools import partial

import pytest
import torch
from helpers import CLASSIFIERS, make_classifier, make_model, scores, small, source_batch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU"),
]
TRANSLATION = (
    *("transevolve", "transevolve_fullff_2_prenorm", "macaron_transformer"),
    *("diffeq_transformer", "pcformer", "ot_transformer", "yuriiformer"),
)
# Adaptive steps depend on the last digits, and with them what a block returns.
FIXED_GRID = {"sizes": small("node_transformer")}, ["--ode-method", "rk4", "--ode-steps", "2"]


def classifier(arch):
    sizes, options = FIXED_GRID if arch == "node_transformer" else ({}, [])
    return make_classifier(arch, *options, **sizes)


def models():
    for arch in CLASSIFIERS:
        yield arch, partial(classifier, arch), scores, source_batch()[0]
    for arch in (*TRANSLATION, "node_transformer_mt"):
        tokens, lengths = source_batch()

        def decode(model, tokens, lengths=lengths):
            return model(tokens, lengths.to(tokens.device), tokens)[0]

        yield arch, partial(make_model, arch), decode, tokens


@pytest.fixture(params=models(), ids=lambda found: found[0])
def model(request):
    _, build, run, tokens = request.param
    return build(), run, tokens


def test_outputs_and_gradients_equal_a_cpus(model):
    model, run, tokens = model
    model.eval()
    results = []
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        out = run(model, tokens.to(device))
        out.square().sum().backward()
        gradients = [p.grad.cpu() for p in model.parameters() if p.grad is not None]
        results.append([out.detach().cpu(), *gradients])
    for ours, theirs in zip(*results):
        assert (ours - theirs).abs().max() < 1e-4 * max(1, theirs.abs().max())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_trains(model, dtype):
    """After twenty updates in half precision or under autocast, losses and weights are finite."""
    model, run, tokens = model
    model.cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(20):
        with torch.autocast("cuda", dtype):
            loss = run(model, tokens.cuda()).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
