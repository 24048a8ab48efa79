"""The options by which a trained model takes another depth: steps, or the tolerance of a solver.

A model class has ``depth_dials(cfg)``, which returns a :class:`Dial` for all sides, or for each,
of the options of a training. A class without it has a layer for each depth.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Dial:
    """Options that are turned together.

    Attributes:
        trained: their values in training, by name: numbers of steps, or tolerances.
        order: the order of the method on a fixed grid; None if the solver is adaptive.
    """

    trained: Mapping[str, float]
    order: int | None = None

    @property
    def name(self) -> str:
        """The first of the options."""
        return next(iter(self.trained))

    @property
    def value(self) -> float:
        """The value of the first option in training."""
        return self.trained[self.name]

    def at(self, value: float) -> dict[str, float]:
        """The options where the first one has a value, and the others keep their ratio to it."""
        if self.order is not None:
            return dict.fromkeys(self.trained, value)
        return {name: own * value / self.value for name, own in self.trained.items()}
