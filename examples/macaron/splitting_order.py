"""Measure the order of Lie-Trotter and Strang-Marchuk splitting on a system of particles.

The particles x = (x_1, ..., x_n) in R^d follow x' = F(x) + G(x), in 64-bit floating point, with

    diffusion   F(x)_i = sum_j a_ij (x_j - x_i),   a = softmax(x Wq (x Wk)^T / sqrt(d))
    convection  G(x)_i = tanh(x_i W1 + b) W2

which are in small the self-attention and the feed-forward network of a Transformer layer. The
weights are random. Let S_F^h, S_G^h and S_{F+G}^h be the flows of the three fields over a time h,
and F' and G' the Jacobians. With the flows integrated to rounding, the local truncation errors are

    Lie-Trotter     S_{F+G}^h - S_G^h S_F^h               = h^2/2 (F'G - G'F) + O(h^3)
    Strang-Marchuk  S_{F+G}^h - S_G^{h/2} S_F^h S_G^{h/2} = O(h^3)

(Lu et al., 2019, https://arxiv.org/abs/1906.02762, Theorems 1 and 2). The networks do not compute
these flows: each of their sub-layers is one explicit Euler step. Then the errors are

    Transformer     h^2/2 (F'F + F'G - G'F + G'G) + O(h^3)
    Macaron Net     h^2/2 (F'F + G'G / 2)         + O(h^3)

Both are of second order: Macaron's half-steps remove the commutator F'G - G'F and half of G'G, but
the rest of the error of Euler's method remains and dominates.

Prints a table of the errors in the Frobenius norm and draws them; needs the extra ``plots``.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torchdiffeq import odeint

from fairseq_odeformers.files import markdown_table
from odeformers.plots import label_powers_of_ten, panels, save, styles

Field = Callable[[Tensor], Tensor]  # x -> x'
Flow = Callable[[float, Tensor], Tensor]  # h, x(t) -> x(t + h), or an approximation of it

PARTICLES, DIM = 8, 4
STEPS = [2.0**-k for k in range(3, 11)]


def particle_system(particles: int, dim: int, seed: int) -> tuple[Field, Field, Tensor]:
    """Diffusion F, convection G and initial positions (particles x dim), drawn at random."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def weight(fan_in: int, fan_out: int) -> Tensor:
        return normal(fan_in, fan_out) / math.sqrt(fan_in)

    w_q, w_k = weight(dim, dim), weight(dim, dim)
    w_1, b, w_2 = weight(dim, 4 * dim), normal(4 * dim), weight(4 * dim, dim)

    def diffusion(x: Tensor) -> Tensor:
        scores = (x @ w_q) @ (x @ w_k).T / math.sqrt(dim)
        return torch.softmax(scores, dim=-1) @ x - x  # each row of the softmax sums to one

    def convection(x: Tensor) -> Tensor:
        return torch.tanh(x @ w_1 + b) @ w_2

    return diffusion, convection, normal(particles, dim)


def flow(f: Field) -> Flow:
    """The flow of x' = f(x), to rounding."""

    def s(h: float, x: Tensor) -> Tensor:
        t = torch.tensor([0.0, h], dtype=x.dtype)
        # Without step_t, the solver steps past h and interpolates, with an error of up to 1e-8.
        options = {"step_t": t[1:]}
        return odeint(
            lambda _, y: f(y), x, t, rtol=1e-13, atol=1e-13, method="dopri8", options=options
        )[1]

    return s


def euler(f: Field) -> Flow:
    return lambda h, x: x + h * f(x)


def lie_trotter(s_f: Flow, s_g: Flow) -> Flow:
    return lambda h, x: s_g(h, s_f(h, x))


def strang_marchuk(s_f: Flow, s_g: Flow) -> Flow:
    return lambda h, x: s_g(h / 2, s_f(h, s_g(h / 2, x)))


def local_errors(f: Field, g: Field, x: Tensor) -> dict[str, np.ndarray]:
    """Frobenius norm of the local truncation error of each scheme at *x*, for all of STEPS."""
    schemes = {
        "Lie-Trotter": lie_trotter(flow(f), flow(g)),
        "Strang-Marchuk": strang_marchuk(flow(f), flow(g)),
        "Transformer (Lie-Trotter, Euler)": lie_trotter(euler(f), euler(g)),
        "Macaron Net (Strang-Marchuk, Euler)": strang_marchuk(euler(f), euler(g)),
    }
    exact = flow(lambda y: f(y) + g(y))
    truth = [exact(h, x) for h in STEPS]
    return {
        name: np.array([(y - scheme(h, x)).norm().item() for h, y in zip(STEPS, truth)])
        for name, scheme in schemes.items()
    }


def fitted_exponent(errors: np.ndarray) -> float:
    """Slope of the least-squares line through log(error) against log(step)."""
    return np.polyfit(np.log(STEPS), np.log(errors), 1)[0]


def table(errors: dict[str, np.ndarray]) -> str:
    """The errors of each scheme, the exponents of h and error constants, in Markdown."""
    rows = [["step size h", *errors]]
    for h, *row in zip(STEPS, *errors.values()):
        rows.append([f"1/{1 / h:.0f}", *(f"{error:.2e}" for error in row)])
    fitted = map(fitted_exponent, errors.values())
    rows.append(["fitted exponent of the error", *(f"**{slope:.2f}**" for slope in fitted)])
    # A fitted exponent would leave a power of h in the constant.
    powers = [3 if name == "Strang-Marchuk" else 2 for name in errors]
    constants = [e[-1] / STEPS[-1] ** power for e, power in zip(errors.values(), powers)]
    rows.append(["exponent q, rounded (the method's order + 1)", *map(str, powers)])
    name = f"error / $h^q$ at h = {rows[-3][0]}"
    rows.append([name, *(f"{constant:.3f}" for constant in constants)])
    return markdown_table(rows)


def draw(errors: dict[str, np.ndarray]) -> Figure:
    """The errors against the steps, with lines of slope 2 and 3."""
    figure, (axes,) = panels(1, 1, 6, 4.2)
    for name, look in styles(errors).items():
        label = f"{name}: {fitted_exponent(errors[name]):.2f}"
        axes.loglog(STEPS, errors[name], label=label, **look)
    for name, slope in [("Lie-Trotter", 2), ("Strang-Marchuk", 3)]:
        reference = errors[name][-1] / 3 * (np.array(STEPS) / STEPS[-1]) ** slope
        axes.plot(STEPS, reference, "k:", linewidth=1)
        axes.text(STEPS[-2], reference[-2], f"slope {slope}", ha="left", va="top")
    axes.set_xscale("log", base=2)
    label_powers_of_ten(axes)
    axes.set(xlabel="step size h", ylabel="error of one step (Frobenius norm)")
    axes.legend(title="scheme: fitted exponent")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    figure = Path(__file__).with_suffix(".png")
    parser.add_argument("--out", type=Path, default=figure, help="PNG file of the figure")
    parser.add_argument("--seed", type=int, default=1, help="of weights and positions")
    args = parser.parse_args()
    errors = local_errors(*particle_system(PARTICLES, DIM, args.seed))
    print(table(errors), end="")
    save(draw, errors, args.out)


if __name__ == "__main__":
    main()
