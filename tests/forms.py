"""Command lines with every form of a layer, for properties of all architectures."""

import re

from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_odeformers.registry import default_options, paper_of
from odeformers.options import architectures

VARIANTS = [  # options for another form of a layer
    "transevolve --self-attention-value-projection --cross-attention-value-norm "
    "--cross-attention-value-projection",
    "macaron_transformer --cross-self-attention --no-cross-attention",
    "ode_transformer_lm --rk-order 4 --rk-field released",
    "ode_transformer --rk-order 3 --dense-history",
    "ode_transformer_classifier --rk-coefficients learned",
    "ot_transformer --ode-field textbook --final-norm state --ode-method rk4",
    "ot_transformer_lm --no-layer-norm --final-norm none --ode-method midpoint",
    "pcformer_lm --rk-order 4 --rk-field released --rk-norm --alpha-per-layer",
    "yuriiformer --velocity embedding",
    "tmmformer_lm --velocity embedding --decoder-learned-pos",
    "tmmformer_classifier --velocity embedding",
]


# Options that check sets, or that change how often a layer computes, not what.
SIZES = r"(dropout|dim|heads|layers|depth|blocks|experts|positions|steps|share_.*|help)$"


def features(line):
    """The class of an architecture's model, and the values of its options, by family."""
    arch, *_ = line.split()
    options = {name: str(v) for name, v in default_options(arch).items()}
    given = re.findall(r"--([\w-]+)(?: (\w+))?", line)
    options |= {name.replace("-", "_"): value or "True" for name, value in given}
    kept = (item for item in options.items() if not re.search(SIZES, item[0]))
    return {ARCH_MODEL_REGISTRY[arch], *((paper_of(arch), *item) for item in kept)}


def representatives(lines):
    """Lines that cover all features, each with one that the earlier lines lack."""
    left = {line: features(line) for line in lines}
    while left:
        line = max(left, key=lambda one: len(left[one]))
        covered = left.pop(line)
        left = {other: rest for other in left if (rest := left[other] - covered)}
        yield line


def every_form():
    """Lines with each model, and with each form of a layer that a family's options select."""
    return representatives([*VARIANTS, *architectures()[::-1]])
