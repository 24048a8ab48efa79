"""Butcher tableaus: the coefficients of explicit Runge-Kutta methods.

:data:`TABLEAUS` lists the methods of blocks by their order. :data:`FIXED_GRID` and :data:`ADAPTIVE`
list the methods of solvers under torchdiffeq's names and with its coefficients. An adaptive method
chooses its steps by the difference of two solutions, and continues from the solution with
``weights``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property


@dataclass(frozen=True)
class Tableau:
    r"""The Butcher tableau of an explicit Runge-Kutta method with s stages.

    .. math:: k_i = f(t + c_i h, X + h \sum_{j < i} a_{ij} k_j), \quad X + h \sum_i b_i k_i

    Attributes:
        nodes: c of all stages except the first (c = 0).
        matrix: rows of a for these stages.
        weights: b of all stages.
        order: order of the solution with the weights b.
        embedded_weights: weights of the second solution of an adaptive method.
    """

    nodes: Sequence[float]
    matrix: Sequence[Sequence[float]]
    weights: Sequence[float]
    order: int
    embedded_weights: Sequence[float] = ()

    @cached_property
    def first_same_as_last(self) -> bool:
        """Whether the last stage of a step is also the first stage of the next step."""
        return bool(self.matrix) and (*self.matrix[-1], 0) == self.weights


# --- Blocks ----------------------------------------------------------------

# Euler 1768. A layer of a Transformer, or of another residual network, is one Euler step.
EULER = Tableau(nodes=(), matrix=(), weights=(1,), order=1)

# Heun 1900: the explicit trapezoidal rule, called "improved Euler" in Li et al. 2022. It is neither
# the midpoint rule nor Heun's method of order 3.
HEUN = Tableau(nodes=(1,), matrix=((1,),), weights=(1 / 2, 1 / 2), order=2)

# Kutta's third-order method (1901). Heun's third-order method has the weights 1/4, 0, 3/4.
KUTTA = Tableau(
    nodes=(1 / 2, 1), matrix=((1 / 2,), (-1, 2)), weights=(1 / 6, 2 / 3, 1 / 6), order=3
)

# Kutta 1901: the "classical" method. In torchdiffeq and therefore in the N-ODE Transformer, rk4 is
# the 3/8 rule from the same paper.
CLASSICAL = Tableau(
    nodes=(1 / 2, 1 / 2, 1),
    matrix=((1 / 2,), (0, 1 / 2), (0, 0, 1)),
    weights=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    order=4,
)

TABLEAUS = {tableau.order: tableau for tableau in (EULER, HEUN, KUTTA, CLASSICAL)}

# fmt: off
# --- Solvers on a fixed grid -----------------------------------------------

# Runge 1895: the explicit midpoint rule. The implicit one is symplectic.
MIDPOINT = Tableau(nodes=(1 / 2,), matrix=((1 / 2,),), weights=(0, 1), order=2)

# Kutta 1901: the 3/8 rule, as in torchdiffeq. The "classical" method from the same paper has the
# weights 1/6, 1/3, 1/3, 1/6.
RK4 = Tableau(
    nodes=(1 / 3, 2 / 3, 1),
    matrix=(
        (1 / 3,),
        (-1 / 3, 1),
        (1, -1, 1),
    ),
    weights=(1 / 8, 3 / 8, 3 / 8, 1 / 8),
    order=4,
)

FIXED_GRID = {"euler": EULER, "midpoint": MIDPOINT, "rk4": RK4}

# --- Adaptive solvers ------------------------------------------------------

# Heun's method, with Euler's method embedded.
ADAPTIVE_HEUN = replace(HEUN, embedded_weights=(1, 0))

# Fehlberg 1969, Low-order classical Runge-Kutta formulas: RK1(2), not RKF4(5).
FEHLBERG2 = Tableau(
    nodes=(1 / 2, 1),
    matrix=(
        (1 / 2,),
        (1 / 256, 255 / 256),
    ),
    weights=(1 / 512, 255 / 256, 1 / 512),
    embedded_weights=(1 / 256, 255 / 256, 0),
    order=2,
)

# Bogacki and Shampine 1989, A 3(2) pair of Runge-Kutta formulas; MATLAB's ode23.
BOSH3 = Tableau(
    nodes=(1 / 2, 3 / 4, 1),
    matrix=(
        (1 / 2,),
        (0, 3 / 4),
        (2 / 9, 1 / 3, 4 / 9),
    ),
    weights=(2 / 9, 1 / 3, 4 / 9, 0),
    embedded_weights=(7 / 24, 1 / 4, 1 / 3, 1 / 8),
    order=3,
)

# Dormand and Prince 1980, A family of embedded Runge-Kutta formulae: RK5(4)7M, with the embedded
# weights from Shampine 1986, Some practical Runge-Kutta formulas. scipy and MATLAB use the original
# weights.
DOPRI5 = Tableau(
    nodes=(1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1),
    matrix=(
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
    weights=(35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0),
    embedded_weights=(
        1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60,
    ),
    order=5,
)

# Prince and Dormand 1981, High order embedded Runge-Kutta formulae: RK8(7)13M, with an additional
# stage at the solution. It is not DOP853 by Hairer, Norsett and Wanner.
DOPRI8 = Tableau(
    nodes=(
        1 / 18, 1 / 12, 1 / 8, 5 / 16, 3 / 8, 59 / 400, 93 / 200, 5490023248 / 9719169821, 13 / 20,
        1201146811 / 1299019798, 1, 1, 1,
    ),
    matrix=(
        (1 / 18,),
        (1 / 48, 1 / 16),
        (1 / 32, 0, 3 / 32),
        (5 / 16, 0, -75 / 64, 75 / 64),
        (3 / 80, 0, 0, 3 / 16, 3 / 20),
        (
            29443841 / 614563906, 0, 0, 77736538 / 692538347, -28693883 / 1125000000,
            23124283 / 1800000000,
        ),
        (
            16016141 / 946692911, 0, 0, 61564180 / 158732637, 22789713 / 633445777,
            545815736 / 2771057229, -180193667 / 1043307555,
        ),
        (
            39632708 / 573591083, 0, 0, -433636366 / 683701615, -421739975 / 2616292301,
            100302831 / 723423059, 790204164 / 839813087, 800635310 / 3783071287,
        ),
        (
            246121993 / 1340847787, 0, 0, -37695042795 / 15268766246, -309121744 / 1061227803,
            -12992083 / 490766935, 6005943493 / 2108947869, 393006217 / 1396673457,
            123872331 / 1001029789,
        ),
        (
            -1028468189 / 846180014, 0, 0, 8478235783 / 508512852, 1311729495 / 1432422823,
            -10304129995 / 1701304382, -48777925059 / 3047939560, 15336726248 / 1032824649,
            -45442868181 / 3398467696, 3065993473 / 597172653,
        ),
        (
            185892177 / 718116043, 0, 0, -3185094517 / 667107341, -477755414 / 1098053517,
            -703635378 / 230739211, 5731566787 / 1027545527, 5232866602 / 850066563,
            -4093664535 / 808688257, 3962137247 / 1805957418, 65686358 / 487910083,
        ),
        (
            403863854 / 491063109, 0, 0, -5068492393 / 434740067, -411421997 / 543043805,
            652783627 / 914296604, 11173962825 / 925320556, -13158990841 / 6184727034,
            3936647629 / 1978049680, -160528059 / 685178525, 248638103 / 1413531060, 0,
        ),
        (
            14005451 / 335480064, 0, 0, 0, 0, -59238493 / 1068277825, 181606767 / 758867731,
            561292985 / 797845732, -1041891430 / 1371343529, 760417239 / 1151165299,
            118820643 / 751138087, -528747749 / 2220607170, 1 / 4,
        ),
    ),
    weights=(
        14005451 / 335480064, 0, 0, 0, 0, -59238493 / 1068277825, 181606767 / 758867731,
        561292985 / 797845732, -1041891430 / 1371343529, 760417239 / 1151165299,
        118820643 / 751138087, -528747749 / 2220607170, 1 / 4, 0,
    ),
    embedded_weights=(
        13451932 / 455176623, 0, 0, 0, 0, -808719846 / 976000145, 1757004468 / 5645159321,
        656045339 / 265891186, -3867574721 / 1518517206, 465885868 / 322736535,
        53011238 / 667516719, 2 / 45, 0, 0,
    ),
    order=8,
)

ADAPTIVE = {
    "dopri5": DOPRI5,
    "dopri8": DOPRI8,
    "bosh3": BOSH3,
    "fehlberg2": FEHLBERG2,
    "adaptive_heun": ADAPTIVE_HEUN,
}
