"""Transformers derived from numerical solvers of ordinary differential equations.

Importing the package, by name or through fairseq's ``--user-dir``, registers its models, tasks and
criterions with fairseq. ``load_translator``, ``load_classifier`` and ``load_language_model`` load
trained models; see ``inference.hub``. ``build_model`` builds untrained ones; see
``inference.untrained``. ``import_plugins`` imports plugins as ``--user-dir`` does.
"""

from typing import TYPE_CHECKING, Any

from . import patches

patches.apply()

from . import criterions, tasks  # noqa: E402, F401
from .models import (  # noqa: E402, F401
    baselines,
    diffeq_transformer,
    macaron,
    node_transformer,
    ode_transformer,
    ot_transformer,
    pcformer,
    transevolve,
    transject,
    yuriiformer,
)
from .registry import import_plugins  # noqa: E402

if TYPE_CHECKING:
    from .inference.hub import load_classifier, load_language_model, load_translator
    from .inference.untrained import build_model

__all__ = (
    "build_model",
    "import_plugins",
    "load_classifier",
    "load_language_model",
    "load_translator",
)


def __dir__() -> list[str]:
    return [*{*globals(), *__all__}]


def __getattr__(name: str) -> Any:
    # fairseq's commands do not need these functions, so they are imported on first use.
    if name in __all__:
        from .inference import hub, untrained

        return getattr(untrained if name == "build_model" else hub, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
