import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from torch.func import jvp

SCRIPT = Path(__file__).parents[2] / "examples" / "macaron" / "splitting_order.py"
spec = importlib.util.spec_from_file_location("splitting_order", SCRIPT)
splitting_order = importlib.util.module_from_spec(spec)
spec.loader.exec_module(splitting_order)

SMALLEST = splitting_order.STEPS[-1]


def along(f, v):
    """The field f'v: the derivative of *f* in the direction of *v*."""
    return lambda x: jvp(f, (x,), (v(x),))[1]


def commutator(f, g):
    return lambda x: along(f, g)(x) - along(g, f)(x)


@pytest.fixture(scope="module", params=[(2, 1, 3), (5, 3, 1), (5, 3, 2)])
def measured(request):
    """Diffusion, convection and positions of a small system, and the errors of the schemes."""
    f, g, x = splitting_order.particle_system(*request.param)
    return f, g, x, splitting_order.local_errors(f, g, x)


def test_fitted_orders_are_the_theorems(measured):
    """Theorem 1 of Macaron Net gives 2 and 3; with Euler's method both are 2."""
    orders = [splitting_order.fitted_exponent(errors) for errors in measured[3].values()]
    assert orders == pytest.approx([2, 3, 2, 2], abs=0.1)


def test_errors_have_the_leading_terms(measured):
    """At the smallest step the errors are the leading terms of their expansions in h."""
    f, g, x, errors = measured
    ff, gg = along(f, f)(x), along(g, g)(x)
    fg_gf = commutator(f, g)
    lie_trotter = fg_gf(x) / 2
    # The third-order term of the Baker-Campbell-Hausdorff formula for exp(G/2) exp(F) exp(G/2).
    strang_marchuk = commutator(fg_gf, g)(x) / 24 + commutator(fg_gf, f)(x) / 12
    transformer = (ff + fg_gf(x) + gg) / 2
    macaron = (ff + gg / 2) / 2
    for column, term, order in zip(
        errors.values(), [lie_trotter, strang_marchuk, transformer, macaron], [2, 3, 2, 2]
    ):
        assert column[-1] == pytest.approx(term.norm().item() * SMALLEST**order, rel=0.02)


def test_splitting_is_exact_for_commuting_linear_fields():
    """If AB = BA, x' = Ax + Bx has the flow exp(h(A + B)), which both schemes give to rounding."""
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(3, 3, generator=generator, dtype=torch.float64) / 2
    b = torch.eye(3, dtype=torch.float64) - a @ a
    x = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    s_a, s_b = splitting_order.flow(lambda y: y @ a), splitting_order.flow(lambda y: y @ b)
    for scheme in (splitting_order.lie_trotter, splitting_order.strang_marchuk):
        for h in (1.0, 0.25):
            expected = x @ torch.matrix_exp(h * (a + b))
            torch.testing.assert_close(scheme(s_a, s_b)(h, x), expected, rtol=0, atol=1e-12)


def test_command_prints_the_published_table_and_draws_the_figure(tmp_path, monkeypatch, capsys):
    figure = tmp_path / "order.png"
    monkeypatch.setattr(sys, "argv", ["splitting_order.py", "--out", str(figure)])
    splitting_order.main()
    printed = capsys.readouterr().out.splitlines()
    page = SCRIPT.parents[2] / "docs/papers/macaron.md"
    _, text = page.read_text("utf-8").split("(../../examples/macaron/splitting_order.py) takes")
    text = text.partition("## Deviations")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert rows[-3:] == printed[-3:] and set(rows) <= set(printed)  # of the steps, only some
    assert figure.read_bytes().startswith(b"\x89PNG")
