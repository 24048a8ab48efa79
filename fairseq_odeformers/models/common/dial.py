"""Options that change the depth of a trained model: the number of steps, or a solver's tolerance.

A model class with such options defines ``depth_dials(cfg)``. From the options of a training run,
the method returns a :class:`Dial` for both sides, or one for each. Without it, the depth is fixed.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Dial:
    """Options that change the depth of a trained model: numbers of steps, or tolerances.

    A model's ``depth_dials(cfg)`` returns dials, and ``odeformers analyse depth`` varies them.

    Attributes:
        trained: values in training by name: numbers of steps, or tolerances.
        order: order of the method on a fixed grid; None if the solver is adaptive.
    """

    trained: Mapping[str, float]
    order: int | None = None

    @property
    def name(self) -> str:
        """The name of the first option, such as ``encoder_steps``; it names the dial in tables."""
        return next(iter(self.trained))

    @property
    def value(self) -> float:
        """The value of the first option in training, from which ``analyse depth`` starts."""
        return self.trained[self.name]

    def at(self, value: float) -> dict[str, float]:
        """Return the options for a *value* of the first one.

        All options for numbers of steps get the same value. Tolerances keep their ratios.
        """
        if self.order is not None:
            return dict.fromkeys(self.trained, value)
        return {name: trained * value / self.value for name, trained in self.trained.items()}
