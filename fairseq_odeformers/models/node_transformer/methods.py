"""The Runge-Kutta methods, under the names that torchdiffeq gives them: a tableau each.

An adaptive method chooses its steps by the difference of two solutions, and goes on from the more
accurate one. The tableaus of ``ADAPTIVE`` are torchdiffeq's:

- ``dopri5``: Dormand and Prince 1980, A family of embedded Runge-Kutta formulae, RK5(4)7M, with the
  embedded weights of Shampine 1986, Some practical Runge-Kutta formulas; scipy and MATLAB take the
  original ones.
- ``dopri8``: Prince and Dormand 1981, High order embedded Runge-Kutta formulae, RK8(7)13M, with a
  last stage at the solution. Not DOP853 of Hairer, Norsett and Wanner.
- ``bosh3``: Bogacki and Shampine 1989, A 3(2) pair of Runge-Kutta formulas; MATLAB's ode23.
- ``fehlberg2``: Fehlberg 1969, Low-order classical Runge-Kutta formulas, RK1(2). Not RKF4(5).
- ``adaptive_heun``: Heun 1900, the explicit trapezoidal rule, with Euler's method embedded. Not his
  method of order three.
"""

from torchdiffeq._impl.odeint import SOLVERS

from .runge_kutta import Tableau


def adaptive(name: str) -> Tableau:
    """The tableau of torchdiffeq's adaptive method of this name."""
    solver = SOLVERS[name]
    return Tableau(
        nodes=tuple(solver.tableau.alpha.tolist()),
        matrix=tuple(tuple(row.tolist()) for row in solver.tableau.beta),
        weights=tuple(solver.tableau.c_sol.tolist()),
        error_weights=tuple(solver.tableau.c_error.tolist()),
        order=solver.order,
    )


ADAPTIVE = {
    name: adaptive(name) for name in ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun")
}

# Euler 1768; a layer of a residual network is one step of it.
EULER = Tableau(nodes=(), matrix=(), weights=(1,), order=1)

# Runge 1895. Explicit: not the implicit midpoint rule, which is symplectic.
MIDPOINT = Tableau(nodes=(1 / 2,), matrix=((1 / 2,),), weights=(0, 1), order=2)

# Kutta 1901's 3/8 rule, as in torchdiffeq. Not the "classical" method of the same paper, whose
# weights are 1/6, 1/3, 1/3, 1/6.
RK4 = Tableau(
    nodes=(1 / 3, 2 / 3, 1),
    matrix=((1 / 3,), (-1 / 3, 1), (1, -1, 1)),
    weights=(1 / 8, 3 / 8, 3 / 8, 1 / 8),
    order=4,
)

FIXED_GRID = {"euler": EULER, "midpoint": MIDPOINT, "rk4": RK4}
