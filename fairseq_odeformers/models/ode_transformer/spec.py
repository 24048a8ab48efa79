"""What the blocks of the ODE Transformer are built from, beside fairseq's config."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.runge_kutta import RungeKuttaSpec


@dataclass(frozen=True)
class BlockSpec(RungeKuttaSpec):
    """The method of a block and the coefficients of its slopes: the options of these names."""

    rk_coefficients: str | None = None

    @property
    def coefficients(self) -> str:
        """The form of the coefficients; where no option says, the paper's best."""
        return self.rk_coefficients or ("gated" if self.rk_order == 2 else "fixed")
