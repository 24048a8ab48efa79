"""How a solve may fail."""


class SolveError(RuntimeError):
    """A solve does not reach its end.

    Attributes:
        remedy: the options that may help.
    """

    remedy = ""


class TooManySteps(SolveError):
    """A solve needs more steps than it may take."""

    remedy = (
        "give more with --ode-max-steps, a larger --ode-rtol and --ode-atol, a smaller learning "
        "rate or, to keep trajectories simple, an --arclength-weight"
    )


class NotFinite(SolveError):
    """A state or slope is not finite, or changes too fast for any step."""

    remedy = "give a smaller learning rate"
