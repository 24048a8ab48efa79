"""The spec of a block of the ODE Transformer, in addition to fairseq's config."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.runge_kutta import RungeKuttaSpec


@dataclass(frozen=True)
class BlockSpec(RungeKuttaSpec):
    """The method of a block and its coefficients; fields are named after their options."""

    rk_coefficients: str | None = None

    @property
    def coefficients(self) -> str:
        """The form of the coefficients; the default is the best form in the paper."""
        return self.rk_coefficients or ("gated" if self.rk_order == 2 else "fixed")
