"""Blocks of the N-ODE Transformer: arclength, gradients, precision, incremental decoding."""

import pytest
import torch
import torch.nn.functional as F
from torchdiffeq import odeint

from fairseq_odeformers.models.node_transformer import layout
from fairseq_odeformers.models.node_transformer.adjoint import Adjoint
from fairseq_odeformers.models.node_transformer.block import NodeBlock, NodeDecoderBlock
from fairseq_odeformers.models.node_transformer.field import TransformerField
from fairseq_odeformers.models.node_transformer.layout import features_first
from fairseq_odeformers.models.node_transformer.solver import Adaptive, FixedGrid
from fairseq_odeformers.models.node_transformer.spec import BlockSpec

D, T, B = 8, 7, 3


def make_block(solver=None, order=1, **options):
    """A block whose ReLUs are all positive for the states of the tests, so that dX/dt is smooth.

    Where one changes its sign, a method of any order has a larger error than it estimates.
    """
    torch.manual_seed(0)
    field = TransformerField(BlockSpec(D, D // 2, D, **options))
    torch.nn.init.constant_(field.fc1.bias, 3)
    return NodeBlock(field, solver or Adaptive(), arclength_order=order)


def batch(lengths=(T, 4, 1)):
    torch.manual_seed(1)
    x = torch.randn(T, B, D) / 2
    padding = torch.arange(T) >= torch.tensor(lengths).unsqueeze(1)
    return x * ~padding.T.unsqueeze(-1), padding


@pytest.mark.parametrize("order", [1, 2, 3])
def test_arclength_equals_the_integral(float64, monkeypatch, order):
    """The arclength is 1/2n of the integral of |d^K X/dt^K|^2, by differences of a dense solution.

    It holds for the steps of the batch and of each sequence, and for both ways to compute
    attention.
    """
    x, padding = batch()
    results = []
    for per_sequence, few in ((False, 0), (True, 1000)):
        monkeypatch.setattr(layout, "FEW_KEY_ELEMENTS", few)
        solver = Adaptive(rtol=1e-6, atol=1e-6, per_sequence=per_sequence)
        block = make_block(solver, order, vector_field="residual")
        results.append(block(x, padding)[1].integral)
    start, times = features_first(x), torch.linspace(0, 1, 201)
    f = block.field.bind(start, padding)
    states = odeint(f, start, times, rtol=1e-9, atol=1e-9, method="dopri8")
    slopes = torch.stack([f(t, state) for t, state in zip(times, states)])
    for _ in range(order - 1):
        (slopes,) = torch.gradient(slopes, spacing=1 / 200, dim=0, edge_order=2)
    squares = slopes.square().sum((1, 2)) / (2 * torch.tensor([T, 4, 1]))
    expected = torch.trapezoid(squares, times, dim=0)
    for integral in results:
        relative = (integral - expected).abs() / expected
        assert relative.max() < (1e-4 if order == 1 else 1e-3)


@pytest.mark.parametrize(
    "solver", [Adaptive(), Adaptive(per_sequence=True), Adjoint(Adaptive())], ids=repr
)
@pytest.mark.parametrize("lengths", [(T, T, T), (T, 4, 1)])
@pytest.mark.parametrize("frozen", [False, True])
def test_padding_does_not_change_the_steps(float64, frozen, lengths, solver):
    """With more padding a batch takes the same steps in both directions.

    So it has the same gradients; other steps would change these by some 1e-6. The errors of the
    parameters' gradients, larger than the states', may alone determine the steps backwards.
    """
    x, padding = batch(lengths)
    longer = F.pad(x, (0, 0, 0, 0, 0, 9)), F.pad(padding, (0, 9), value=True)
    block = make_block(solver, vector_field="residual").requires_grad_(not frozen)
    results = []
    for states, mask in ((x, padding), longer):
        start = states.requires_grad_()
        out, solution = block(start, mask)
        loss = out[~mask.T].square().sum() + solution.integral.sum()
        inputs = [start, *(p for p in block.parameters() if p.requires_grad)]
        of_start, *gradients = torch.autograd.grad(loss, inputs)
        steps = [n for counts in solution.statistics.values() for n in counts.tolist()]
        results.append((steps, [out[:T], of_start[:T], *gradients]))
    (steps, expected), (other_steps, tensors) = results
    assert steps == other_steps
    for a, b in zip(expected, tensors):
        assert (a - b).abs().max() < 1e-12 * max(1, a.abs().max())


def test_adjoint_method_needs_the_tensors_of_a_field():
    """A closure would lose the gradients of the tensors inside of it."""

    class Closure(torch.nn.Linear):
        def bind(self, x, padding_mask):
            return lambda t, x: self(x.movedim(0, -1)).movedim(-1, 0)

    x, _ = batch()
    NodeBlock(Closure(D, D), Adaptive())(x)
    with pytest.raises(TypeError, match="adjoint method: .*make the vector field a NamedTuple"):
        NodeBlock(Closure(D, D), Adjoint(Adaptive()))(x)


@pytest.mark.parametrize(
    "solver, order",
    [(Adaptive(), 1), (FixedGrid("rk4", steps=3), 3), (Adjoint(FixedGrid("rk4", steps=8)), 2)],
    ids=repr,
)
def test_gradients_of_the_arclength_are_exact(float64, solver, order):
    """The gradients of all parameters agree with finite differences along a random direction."""
    x, padding = batch()
    block = make_block(solver, order, vector_field="residual")
    parameters = list(block.parameters())
    direction = [torch.randn_like(p) for p in parameters]
    block(x, padding)[1].integral.sum().backward()
    slope = sum((p.grad * v).sum() for p, v in zip(parameters, direction))
    values = []
    for step in (1e-5, -2e-5):
        for p, v in zip(parameters, direction):
            p.data.add_(v, alpha=step)
        values.append(block(x, padding)[1].integral.sum())
    assert abs((values[0] - values[1]) / 2e-5 - slope) < 1e-4 * abs(slope)


@pytest.mark.parametrize("per_sequence, order", [(False, 2), (True, 1)])
def test_recomputed_steps_have_the_same_gradients(float64, per_sequence, order):
    """Recomputed steps give bit-identical gradients, with arclength and dropout."""
    x, padding = batch()
    results = []
    for kept_steps in (1, 10**6):
        solver = Adaptive(per_sequence=per_sequence, kept_steps=kept_steps)
        block = make_block(solver, order, vector_field="residual", dropout=0.1)
        torch.manual_seed(3)
        out, solution = block(x, padding)
        assert solution.statistics["accepted"].max() > 2
        loss = out.square().sum() + solution.integral.sum()
        results.append([out, *torch.autograd.grad(loss, list(block.parameters()))])
    assert all(torch.equal(a, b) for a, b in zip(*results))


@pytest.mark.parametrize(
    "options",
    [
        dict(time_dependent_attention=True, dropout=0.1),
        dict(vector_field="residual", normalize_before=True),
        dict(skip_connection=True),
    ],
)
def test_the_adjoint_method_has_the_gradients_of_the_steps(float64, options):
    """The gradients of state and arclength agree for the start and every parameter."""
    x, padding = batch()
    gradients, through_steps = [], Adaptive(rtol=1e-8, atol=1e-8)
    for solver in (through_steps, Adjoint(through_steps)):
        block = make_block(solver, **options)
        start = x.clone().requires_grad_()
        torch.manual_seed(3)
        out, solution = block(start, padding)
        loss = out.square().sum() + 0.1 * solution.integral.sum()
        gradients.append(torch.autograd.grad(loss, [start, *block.parameters()]))
    for a, b in zip(*gradients):
        assert (a - b).abs().max() < 1e-6 * max(1, a.abs().max())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_states_are_solved_in_single(dtype):
    x, padding = batch()
    block = make_block().to(dtype)
    out, solution = block(x.to(dtype), padding)
    single, _ = block.float()(x.to(dtype).float(), padding)
    assert out.dtype == dtype and solution.state.dtype == torch.float32
    assert torch.equal(out, single.to(dtype))


def test_autocast_does_not_change_a_solve():
    x, padding = batch()
    source, source_padding = batch((5, T, 2))
    encoder, decoder = make_block(), make_decoder_block()
    mixed, single = [], []
    for outputs, enabled in ((mixed, True), (single, False)):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            outputs.append(encoder(x, padding)[0])
            outputs.append(decoder(x, source, source_padding, None, torch.empty(0), padding)[0])
    assert all(torch.equal(a, b) for a, b in zip(mixed, single))


# --- decoder ---------------------------------------------------------------


def make_decoder_block(method="rk4", **options):
    torch.manual_seed(0)
    field = TransformerField(BlockSpec(D, 2, D, **options), decoder=True)
    torch.nn.init.constant_(field.fc1.bias, 3)
    return NodeDecoderBlock(field, FixedGrid(method, steps=2)).eval()


@pytest.mark.parametrize(
    "options", [dict(), dict(vector_field="residual", time_dependent_attention=True)]
)
@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_incremental_decoding_is_exact(float64, method, options):
    """Decoding equals full decoding with padding on the left and hypotheses reordered half-way."""
    x, padding = batch()
    x, padding = x.flip(0), padding.flip(1)
    source, source_padding = batch((5, T, 2))
    block = make_decoder_block(method, **options)
    mask = torch.empty(0)
    full, attn, _ = block(
        x, source, source_padding, self_attn_mask=mask, self_attn_padding_mask=padding
    )
    assert attn is None
    state, order = {}, torch.arange(B)
    for index in range(T):
        if index == 3:
            order = torch.tensor([2, 0, 0])
            block.reorder_incremental_state(state, order)
        out, _, _ = block(
            x[index : index + 1, order],
            source[:, order],
            source_padding[order],
            state,
            self_attn_padding_mask=padding[order, index : index + 1],
        )
        assert (out[0] - full[index, order]).abs().max() < 1e-12
