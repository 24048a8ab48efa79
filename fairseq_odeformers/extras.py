"""Libraries that only some commands need: these import them where they use them."""

from importlib.util import find_spec

# By the name of the module: the library, and the extra of the package that installs it.
EXTRAS = {
    "PIL": ("pillow", "corpora"),
    "sacremoses": ("sacremoses", "corpora"),
    "safetensors": ("safetensors", "export"),
    "subword_nmt": ("subword-nmt", "corpora"),
    "tokenizers": ("tokenizers", "corpora"),
}


def require(*modules: str) -> None:
    """Check that modules are installed, without importing them.

    Raises:
        ImportError: one is not; the message says how to install it.
    """
    for module in modules:
        library, extra = EXTRAS[module]
        if find_spec(module) is None:
            raise ImportError(
                f"{library} is missing; pip install {library}, or this package with its extra "
                f"[{extra}]"
            )
