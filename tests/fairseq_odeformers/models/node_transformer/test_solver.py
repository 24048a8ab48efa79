"""Solvers: torchdiffeq's numbers and steps, padding, steps of each sequence, limits, gradients."""

import math

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torchdiffeq import odeint

from fairseq_odeformers.models.node_transformer.adjoint import Adjoint
from fairseq_odeformers.models.node_transformer.problem import Problem
from fairseq_odeformers.models.node_transformer.solver import Adaptive, FixedGrid
from fairseq_odeformers.modules.tableaus import ADAPTIVE, FIXED_GRID

C, T, B = 4, 5, 3


class Nonlinear(nn.Module):
    """A smooth time-dependent field, along which sequences move at different speeds."""

    def __init__(self, speed=None):
        super().__init__()
        torch.manual_seed(0)
        self.matrix = nn.Parameter(torch.randn(C, C))
        self.speed = torch.tensor([0.5, 2.0, 1.0]) if speed is None else speed
        self.evaluations = 0

    def forward(self, t, x):
        self.evaluations += 1
        return torch.tanh(torch.einsum("ij,jtb->itb", self.matrix, x) + 2 * t) * self.speed


def start():
    torch.manual_seed(1)
    return torch.randn(C, T, B)


def problem(f, x, tokens=T, **options):
    return Problem(f, x, torch.full((x.size(-1),), C * tokens), **options)


def squared(t, x, slope):
    """The square of the norm of each sequence's slope (B)."""
    return slope.square().sum((0, 1))


def reference(f, x, final=1.0, **options):
    times = torch.tensor([0.0, final])
    return odeint(f, x, times, **{"rtol": 1e-11, "atol": 1e-11, "method": "dopri8", **options})[-1]


@pytest.mark.parametrize("method", ADAPTIVE)
def test_adaptive_errors_equal_torchdiffeqs(float64, method):
    """Errors agree for the steps of the batch and of each sequence."""
    f, x = Nonlinear(), start()
    exact = reference(f, x)
    for tolerance in (1e-3, 1e-5):
        theirs = reference(f, x, method=method, rtol=tolerance, atol=tolerance)
        for per_sequence in (False, True):
            f.evaluations = 0
            solution = Adaptive(method, tolerance, tolerance, 10**5, per_sequence)(problem(f, x))
            if not per_sequence:
                assert solution.statistics["nfe"].tolist() == [f.evaluations] * B
            error = (solution.state - exact).abs().max()
            assert error < 2 * (theirs - exact).abs().max() + tolerance


@pytest.mark.parametrize("method", FIXED_GRID)
def test_fixed_grid_equals_torchdiffeqs(float64, method):
    f, x = Nonlinear(), start()
    solution = FixedGrid(method, steps=4)(problem(f, x, final_time=2.0))
    expected = reference(f, x, 2.0, method=method, options={"step_size": 0.5})
    assert (solution.state - expected).abs().max() < 1e-12
    f.evaluations = 0
    reference(f, x, 2.0, method=method, options={"step_size": 0.5})
    assert solution.statistics["nfe"].tolist() == [f.evaluations] * B


class WithCallbacks(Nonlinear):
    """A field that records its evaluation times and counts torchdiffeq's steps."""

    def __init__(self):
        super().__init__()
        self.times, self.accepted, self.rejected = [], 0, 0

    def forward(self, t, x):
        self.times.append(torch.as_tensor(t).item())
        return super().forward(t, x)

    def callback_accept_step(self, t, x, h):
        self.accepted += 1

    def callback_reject_step(self, t, x, h):
        self.rejected += 1


@pytest.mark.parametrize("method", [name for name, m in ADAPTIVE.items() if m.first_same_as_last])
@pytest.mark.parametrize("scale", [1, 1e-9])
def test_steps_equal_torchdiffeqs(float64, method, scale):
    """Only the last step differs: torchdiffeq's exceeds the end of the solve, and interpolates."""
    f, theirs, x = WithCallbacks(), WithCallbacks(), start() * scale
    statistics = Adaptive(method)(problem(f, x)).statistics
    reference(theirs, x, rtol=1e-5, atol=1e-5, method=method)
    assert statistics["accepted"].tolist() == [theirs.accepted] * B
    assert statistics["rejected"].tolist() == [theirs.rejected] * B
    times = f.times[: -len(ADAPTIVE[method].nodes)]
    assert len(f.times) == len(theirs.times) and f.times[-1] == 1
    assert times == pytest.approx(theirs.times[: len(times)], rel=1e-6)


@pytest.mark.parametrize("method", [n for n, m in ADAPTIVE.items() if not m.first_same_as_last])
def test_each_accepted_state_gets_its_own_slope(float64, method):
    """A step costs one evaluation more than torchdiffeq's, which reuses the last stage's slope."""
    f, theirs, x = WithCallbacks(), WithCallbacks(), start()
    statistics = Adaptive(method)(problem(f, x)).statistics
    reference(theirs, x, rtol=1e-5, atol=1e-5, method=method)
    assert statistics["accepted"].tolist() == [theirs.accepted] * B
    assert statistics["rejected"].tolist() == [theirs.rejected] * B
    assert len(f.times) == len(theirs.times) + theirs.accepted - 1


@pytest.mark.parametrize("method", ADAPTIVE)
def test_each_sequence_is_solved_as_if_alone(float64, method):
    f, x = Nonlinear(), start()
    solver = Adaptive(method, 1e-4, 1e-4, per_sequence=True)
    together = solver(problem(f, x, integrand=squared))
    counts = torch.stack(list(together.statistics.values()))
    assert len(set(counts[0].tolist())) > 1
    for index in range(B):
        f_alone = Nonlinear(f.speed[index])
        alone = solver(problem(f_alone, x[:, :, index : index + 1], integrand=squared))
        assert (together.state[:, :, index] - alone.state[:, :, 0]).abs().max() < 1e-12
        assert torch.allclose(together.integral[index], alone.integral[0], rtol=1e-12)
        assert counts[:, index].tolist() == [n.item() for n in alone.statistics.values()]


def test_the_adjoint_method_on_a_fixed_grid_equals_the_steps(float64):
    """States, integrals, and their gradients for the start and the field are equal."""
    results, grid = [], FixedGrid("rk4", steps=100)
    for solve in (grid, Adjoint(grid)):
        f, x = Nonlinear(), start().requires_grad_()
        solution = solve(problem(f, x, integrand=squared))
        loss = solution.state.square().sum() + 0.1 * solution.integral.sum()
        gradients = torch.autograd.grad(loss, [x, f.matrix])
        results.append((solution.state, solution.integral, *gradients))
        assert solution.statistics["nfe"].tolist() == [400] * B
    for a, b in zip(*results):
        assert (a - b).abs().max() < 1e-6


def test_gradients_equal_finite_differences(float64):
    """The steps of each sequence are constants to the gradient."""
    f = Nonlinear()
    solver = Adaptive(rtol=1e-9, atol=1e-9, per_sequence=True)

    def solve(x, matrix):
        bound = lambda t, x: functional_call(f, {"matrix": matrix}, (t, x))  # noqa: E731
        solution = solver(problem(bound, x, integrand=squared))
        return solution.state, solution.integral

    inputs = (start().requires_grad_(), f.matrix)
    assert torch.autograd.gradcheck(solve, inputs, eps=1e-5, atol=1e-5, fast_mode=True)


@pytest.mark.parametrize("per_sequence", [False, True])
def test_a_constant_solution_is_solved(float64, per_sequence):
    still = lambda t, x: torch.zeros_like(x)  # noqa: E731
    solution = Adaptive(per_sequence=per_sequence)(problem(still, torch.zeros(C, T, B), tokens=0))
    assert not solution.state.any()


# --- failed solves ---------------------------------------------------------


LIMIT = dict(rtol=1e-6, atol=1e-6, max_steps=20)
TOO_MANY = r"step 21 at t = 0\.\d+ of 1: .* --ode-max-steps"


@pytest.mark.parametrize(
    "solver, speed, message",
    [
        (Adaptive(**LIMIT), 500, TOO_MANY),
        (Adaptive(**LIMIT, per_sequence=True), 500, TOO_MANY.replace("of", "of sequence 1 of")),
        (Adjoint(Adaptive(**LIMIT)), 500, TOO_MANY),
        (Adaptive(), math.nan, "step 1 at t = 0 of 1: .* not finite"),
        (
            Adaptive(per_sequence=True),
            math.nan,
            "step 1 at t = 0 of sequence 1 of 1: .* not finite",
        ),
        (FixedGrid(), math.nan, "at t = 1: .* not finite"),
        (Adjoint(FixedGrid()), math.nan, "at t = 1: .* not finite"),
    ],
    ids=repr,
)
def test_a_failed_solve_is_located(solver, speed, message):
    """The message names the problem, the time, and the sequence if it has its own steps."""
    f = Nonlinear(speed=torch.tensor([1.0, speed, 1.0]))
    with pytest.raises(RuntimeError, match=f"^block 2, {message}"):
        solver(problem(f, start(), name="block 2"))


@pytest.mark.parametrize("per_sequence", [False, True])
def test_steps_that_overflow_are_repeated(per_sequence):
    """Only the sequence that overflows gets smaller steps, and gradients stay finite."""
    weight = torch.tensor([0.0, 1.0, 0.1], requires_grad=True)
    overflows = []

    def f(t, x):
        slope = -weight * torch.sinh(60 * x)
        overflows.append(not slope.isfinite().all())
        return slope

    solver = Adaptive(rtol=1e-3, atol=1e-3, per_sequence=per_sequence)
    integrand = lambda t, x, slope: slope.abs().sum((0, 1))  # noqa: E731
    solution = solver(problem(f, torch.full((C, T, B), 0.5), integrand=integrand))
    assert any(overflows)
    (solution.state.sum() + solution.integral.sum()).backward()
    assert solution.integral.isfinite().all() and weight.grad.isfinite().all()
    assert torch.allclose(solution.state[..., 0], torch.tensor(0.5))
    if per_sequence:
        assert solution.statistics["rejected"][0] == 0 < solution.statistics["rejected"][1]


@pytest.mark.parametrize("method", ["dopri5", "fehlberg2"])  # with the first stage the last, or not
@pytest.mark.parametrize("per_sequence", [False, True])
def test_an_unfinished_solve_may_stop_at_its_last_state(float64, per_sequence, method):
    """The whole batch stops, or one sequence, while the others are solved as if alone."""
    limit = dict(rtol=1e-6, atol=1e-6, per_sequence=per_sequence)
    f, x = Nonlinear(speed=torch.tensor([0.01, 500, 0.02])), start().requires_grad_()
    time = lambda t, x, slope: torch.ones(B)  # noqa: E731
    solver = Adaptive(method, max_steps=40, stops=True, **limit)
    solution = solver(problem(f, x, integrand=time))
    reached, counts = solution.integral, solution.statistics
    unfinished = [False, True, False] if per_sequence else [True] * B
    assert counts["unfinished"].tolist() == unfinished
    assert (0 < reached).all() and (reached < 1 - 1e-9).tolist() == unfinished
    steps = counts["accepted"] + counts["rejected"]
    assert (steps == 40).tolist() == unfinished
    if per_sequence:
        free = Adaptive(method, **limit)(problem(Nonlinear(f.speed * torch.tensor([1, 0, 1])), x))
        assert torch.equal(solution.state[..., ::2], free.state[..., ::2])
        for name, count in free.statistics.items():
            assert torch.equal(counts[name][::2], count[::2])
    else:
        assert counts["nfe"].tolist() == [f.evaluations] * B
    for index in range(B):
        alone = Nonlinear(f.speed[index])
        end, precise = reached[index].item(), dict(rtol=1e-7, atol=1e-7)
        exact = reference(alone, x[..., index : index + 1], end, **precise)
        assert (solution.state[..., index] - exact[..., 0]).abs().max() < 1e-3
    (gradient,) = torch.autograd.grad(solution.state.sum(), x)
    assert gradient.isfinite().all()


def test_a_stopped_sequence_does_not_delay_the_others(float64):
    """The others do not wait even if the stopped sequence's further steps would overflow."""
    wave = lambda t, x: torch.cos(20 * t) * x  # noqa: E731
    wall = torch.tensor([9, 0.5, 9])

    def f(t, x):
        return wave(t, x).where(wall != 0.5, torch.where(t < wall, 1, math.inf))

    options = dict(rtol=1e-4, atol=1e-4, per_sequence=True)
    solution = Adaptive("bosh3", max_steps=60, stops=True, **options)(problem(f, start()))
    counts = solution.statistics
    assert counts["unfinished"].tolist() == [0, 1, 0]
    assert (counts["accepted"] + counts["rejected"])[1] == 60
    alone = Adaptive("bosh3", **options)(problem(wave, start()))
    assert torch.equal(solution.state[..., ::2], alone.state[..., ::2])


def test_memory_for_backward_does_not_grow_with_the_steps(float64):
    """The steps that backward recomputes leave the gradients bit-identical."""

    def solve(tolerance, kept_steps):
        f, x, sizes = Nonlinear(), start().requires_grad_(), []
        pack = lambda tensor: sizes.append(tensor.numel()) or tensor  # noqa: E731
        solver = Adaptive(rtol=tolerance, atol=tolerance, kept_steps=kept_steps)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            solution = solver(problem(f, x, integrand=squared))
            loss = solution.state.square().sum() + solution.integral.sum()
        gradients = torch.autograd.grad(loss, [x, f.matrix])
        return sum(sizes), [solution.state, solution.integral, *gradients]

    kept, results = solve(1e-9, kept_steps=2)
    all_kept, expected = solve(1e-9, kept_steps=10**6)
    assert kept == solve(1e-5, kept_steps=2)[0] < all_kept / 4
    assert all(torch.equal(a, b) for a, b in zip(results, expected))


def test_too_many_backward_steps_are_an_error():
    """A constant field may have a gradient that needs too many steps."""

    class Constant(nn.Linear):
        def forward(self, t, x):
            return torch.sin(500 * t) * (self.weight - self.weight.detach()) + 0 * x

    f, solver = Constant(1, 1), Adjoint(Adaptive(rtol=1e-6, atol=1e-6, max_steps=30))
    solution = solver(problem(f, start(), name="block 2"))
    with pytest.raises(RuntimeError, match="^block 2, backwards, step 31"):
        solution.state.sum().backward()


def test_the_adjoint_method_solves_the_whole_batch():
    with pytest.raises(ValueError, match="not per sequence"):
        Adjoint(Adaptive(per_sequence=True))
