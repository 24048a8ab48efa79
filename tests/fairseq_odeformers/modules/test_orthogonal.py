"""Orthogonal matrices and orthonormal embeddings: on their manifold, fresh, and differentiable."""

import pickle
from copy import deepcopy

import pytest
import torch
from helpers import assert_same_gradients
from torch.nn.utils import parametrizations
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_odeformers.modules.orthogonal import (
    InverseRoot,
    OrthogonalMatrices,
    OrthonormalEmbedding,
    block_inverse,
    rotate_columns,
)


def make_matrices(number=3, size=16):
    torch.manual_seed(0)
    return OrthogonalMatrices(number, size)


def make_embedding(symbols=40):
    torch.manual_seed(0)
    return OrthonormalEmbedding(symbols, 8, padding_idx=1)


ALL = {
    "matrices": (make_matrices, lambda module: module()),
    # Their inverses are made by blocks.
    "large matrices": (lambda: make_matrices(2, 130), lambda module: module()),
    "embedding": (make_embedding, lambda module: module(torch.arange(40))),
    "few symbols": (lambda: make_embedding(5), lambda module: module(torch.arange(5))),
}


@pytest.fixture(params=list(ALL))
def case(request):
    make, look_up = ALL[request.param]
    return make(), look_up


def gram_error(weight):
    """Of the columns, or the rows if there are fewer of them."""
    gram = weight.mT @ weight if weight.size(-2) >= weight.size(-1) else weight @ weight.mT
    return (gram - torch.eye(gram.size(-1))).abs().max()


def test_on_the_manifold_after_200_updates(case):
    """By our measure and the module's, which is not blind: a shifted matrix is off."""
    module, look_up = case
    before = look_up(module).detach()
    optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
    target = torch.randn_like(before)
    for _ in range(200):
        optimizer.zero_grad()
        (look_up(module) - target).square().sum().backward()
        optimizer.step()
    after = look_up(module).detach()
    assert (after - before).abs().max() > 0.1
    assert gram_error(after) < 1e-4
    with torch.no_grad():
        assert torch.allclose(look_up(module), after, atol=1e-6)
        assert torch.allclose(look_up(module.eval()), after, atol=1e-6)
        assert module.manifold_error() < 1e-4
        module._cache = module.matrix() + 0.01
        assert module.manifold_error() > 1e-2


class Counter(TorchDispatchMode):
    """Counts torch's operations."""

    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.number += 1
        return function(*args, **(kwargs or {}))


def test_made_once_in_evaluation_and_always_in_training(case):
    """Whether the passes without gradients are of ``no_grad`` or of ``inference_mode``."""
    module, look_up = case

    def count(mode):
        with mode(), Counter() as counter:
            found.append(look_up(module))
        return counter.number

    found = []
    made = count(torch.no_grad)
    assert count(torch.no_grad) == made
    module.eval()
    assert count(torch.inference_mode) >= made
    assert count(torch.inference_mode) <= 2 < made and count(torch.no_grad) <= 2
    assert all(torch.equal(one, found[0]) for one in found)
    # The kept matrix is of use in a pass that records gradients of something else.
    (torch.ones(1, requires_grad=True) * module._cache).sum().backward()


def overwrite(module, weights):
    """As fairseq's optimizers do, which write to ``.data``."""
    for name, value in weights.items():
        module.state_dict()[name].copy_(value)
    return module


def optimize(module, weights):
    """As an optimizer does in evaluation mode, after a pass that records gradients."""
    with torch.enable_grad():
        module(torch.arange(5)) if isinstance(module, OrthonormalEmbedding) else module()
    return overwrite(module, weights)


def load(module, weights, **options):
    parent = torch.nn.Sequential(module)
    parent.load_state_dict({f"0.{name}": value for name, value in weights.items()}, **options)
    return module


# What gives a module in evaluation mode other weights; it returns the module that has them.
CHANGES = {
    "eval": lambda module, weights: overwrite(module, weights).eval(),
    "train and eval": lambda module, weights: overwrite(module.train(), weights).eval(),
    "optimizer": optimize,
    "load": load,
    "load, assigned": lambda module, weights: load(module, weights, assign=True),
    "double": lambda module, weights: overwrite(module, weights).double().float(),
    "copy": lambda module, weights: overwrite(deepcopy(module), weights),
    "pickle": lambda module, weights: overwrite(pickle.loads(pickle.dumps(module)), weights),
}


@pytest.mark.parametrize("change", CHANGES)
def test_evaluation_follows_the_weights(case, change):
    """It computes what a new module with the weights does."""
    module, look_up = case
    torch.manual_seed(1)
    weights = {name: value + torch.randn_like(value) for name, value in module.state_dict().items()}
    expected = look_up(load(deepcopy(module), weights)).detach()
    with torch.no_grad():
        first = look_up(module.eval())
        assert (first - expected).abs().max() > 1e-3
        changed = CHANGES[change](module, weights)
        assert not changed.training
        assert torch.allclose(look_up(changed), expected, atol=1e-5)


def test_weights_of_inference_mode():
    """As of a model that is built, loaded or converted in it."""
    with torch.inference_mode():
        module = make_matrices().eval()
        expected = module()
    assert gram_error(expected) < 1e-5
    with torch.no_grad():
        torch.testing.assert_close(module(), expected)
        torch.testing.assert_close(module.train()(), expected)


def test_autocast_does_not_round_the_matrix():
    module, embedding = make_matrices(), make_embedding()
    with torch.autocast("cpu", torch.bfloat16):
        matrices, root = module(), embedding.column_root()
    assert gram_error(matrices) < 1e-5
    assert gram_error(embedding.weight @ root) < 1e-5


def test_half_precision(case):
    """Made in single precision, then rounded; gradients arrive."""
    module, look_up = case
    exact = look_up(module).detach()
    rounded = look_up(module.bfloat16())
    assert rounded.dtype == torch.bfloat16
    assert (rounded - exact).abs().max() < 2e-2
    rounded.square().sum().backward()
    assert module.weight.grad.isfinite().all()


def test_matrices_are_those_of_torch_s_parametrisation(float64):
    """Same map, same entries of the weight, same gradients."""
    ours = make_matrices()
    theirs = torch.nn.Module()
    theirs.weight = torch.nn.Parameter(ours().detach())
    parametrizations.orthogonal(theirs, "weight", orthogonal_map="cayley")
    weight = torch.randn_like(ours.weight)
    ours.weight.data.copy_(weight)
    theirs.parametrizations.weight.original.data.copy_(weight)
    assert (ours() - theirs.weight).abs().max() < 1e-12
    factor = torch.randn_like(weight)
    for module in (ours, theirs):
        ((ours() if module is ours else theirs.weight) * factor).sum().backward()
    gradient = theirs.parametrizations.weight.original.grad
    assert (ours.weight.grad - gradient).abs().max() < 1e-11


@pytest.mark.parametrize("rows, columns", [(7, 3), (5, 5), (140, 130)])
def test_rotate_columns(float64, rows, columns):
    """Those that a whole Cayley transform turns, and its gradients."""
    torch.manual_seed(0)
    base = torch.nn.init.orthogonal_(torch.empty(rows, columns)).unsqueeze(0)
    weight = torch.randn(1, rows, columns, requires_grad=True)
    skew = weight @ base.mT - base @ weight.mT
    expected = torch.linalg.solve(torch.eye(rows) - skew / 2, base + skew @ base / 2)
    assert_same_gradients(rotate_columns(base, weight), expected, [weight])


@pytest.mark.parametrize("size", [1, 7, 16])
def test_block_inverse(size):
    """Down to single numbers, of odd sizes, far from the identity."""
    torch.manual_seed(0)
    x = torch.randn(3, size, size, dtype=torch.float64)
    matrices = 5 * (x - x.mT)
    expected = torch.linalg.inv(torch.eye(size).double() + matrices)
    assert (block_inverse(matrices, shift=1.0, smallest=1) - expected).abs().max() < 1e-12


def test_polar_factor():
    """W (W^T W)^-1/2 is U V^T of the singular value decomposition, in float64."""
    module = make_embedding().double()
    torch.nn.init.normal_(module.weight)
    u, _, vh = torch.linalg.svd(module.weight.detach(), full_matrices=False)
    assert (module(torch.arange(40)) - u @ vh).abs().max() < 1e-12


def test_gradient_of_the_inverse_root():
    """Also at equal eigenvalues, where that of the decomposition does not exist."""
    x = torch.randn(5, 5, dtype=torch.float64)
    for matrix in (torch.eye(5, dtype=torch.float64), x @ x.T + 0.1 * torch.eye(5).double()):
        matrix.requires_grad_()
        symmetric = lambda a: InverseRoot.apply((a + a.T) / 2)  # noqa: E731
        assert torch.autograd.gradcheck(symmetric, matrix)
        root = InverseRoot.apply(matrix)
        assert torch.allclose(root @ matrix @ root, torch.eye(5, dtype=torch.float64))
