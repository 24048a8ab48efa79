"""What the demo trains, on what, and until when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """A training on a corpus.

    Attributes:
        options: of ``fairseq-train``.
        target_bleu: of the validation pairs, translated greedily; it ends the training.
        usual_updates: after which the target was reached, for the estimate of the time left.
        minutes: of training that end it at the latest.
        lowercase: whether the corpus is prepared in lower case.
    """

    options: tuple[object, ...]
    target_bleu: float
    usual_updates: int
    minutes: float
    lowercase: bool


# The first of each is the default.
CORPORA = {
    "cldr": Recipe(
        options=(
            *("--encoder-embed-dim", 128, "--encoder-ffn-embed-dim", 512, "--dropout", 0),
            *("--lr", 4e-3, "--warmup-updates", 200, "--lr-scheduler", "polynomial_decay"),
            *("--total-num-update", 500, "--end-learning-rate", 4e-4),
            *("--max-tokens", 1024, "--save-interval-updates", 100),
        ),
        target_bleu=92.5,
        usual_updates=700,
        minutes=30,
        lowercase=False,
    ),
    "multi30k": Recipe(
        options=(
            *("--encoder-embed-dim", 256, "--encoder-ffn-embed-dim", 1024, "--dropout", 0.3),
            *("--lr", 2e-3, "--warmup-updates", 400, "--lr-scheduler", "inverse_sqrt"),
            *("--max-tokens", 4096, "--save-interval-updates", 60),
        ),
        target_bleu=30,
        usual_updates=600,
        minutes=120,
        lowercase=True,
    ),
}

# Architectures, and what differs from their presets and from the recipe.
ARCHITECTURES = {
    "transevolve_fullff_2_prenorm": ("--encoder-depth", 2, "--attention-dropout", 0),
    "node_transformer_mt": ("--encoder-layers", 1, "--lr", 2e-3, "--warmup-updates", 300),
}

# Pairs of cldr.
SIZES = {"train": 20000, "valid": 500, "test": 500}
