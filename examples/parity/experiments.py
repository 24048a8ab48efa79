"""The experiments of the N-ODE Transformer (Baier-Reinio and De Sterck 2020), and their runs."""

import argparse
import csv
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

from odeformers.parser import positive_int

VANILLA, NODE = "vanilla_transformer", "node_transformer"
LEARNING_RATES = (3e-4, 1e-3, 3e-3)  # the paper does not say which
# The folder that has the models whose names end with this.
TORCH, INITIALISATION = "_torch", Path(__file__).with_name("initialisation")


class Result(NamedTuple):
    """A finished run, by its ensemble, learning rate and seed, and what it has reached.

    Attributes:
        accuracy: the highest training accuracy, in percent.
        seconds: time of training until then, from the first update on.
        updates: the update that first reached it.
    """

    ensemble: str
    learning_rate: float
    seed: int
    accuracy: float
    seconds: float
    updates: int


@dataclass(frozen=True)
class Ensemble:
    """Runs of one model on one set of strings, which differ in learning rate and seed.

    Attributes:
        max_length: length of the longest strings.
        dim: width d.
        layers: number N of layers or N-ODE blocks.
        options: more options of ``fairseq-train``, which override those that all runs have.
        learning_rates: the learning rates, which the runs take in turn.
    """

    arch: str
    max_length: int
    dim: int
    layers: int
    options: tuple[str, ...] = ()
    learning_rates: tuple[float, ...] = LEARNING_RATES

    @property
    def name(self) -> str:
        options = "".join(self.options).replace("--", "-")
        return f"{self.arch}-length{self.max_length}-d{self.dim}-N{self.layers}{options}"

    @property
    def weight(self) -> float:
        """The weight of the arclength."""
        return float(self.options[1]) if "--arclength-weight" in self.options else 0.0

    def run(self, number: int) -> tuple[float, int]:
        """Learning rate and seed of a run by its number, from 0."""
        return self.learning_rates[number % len(self.learning_rates)], 1 + number

    def command(self, learning_rate: float, seed: int, updates: int) -> list[str]:
        """The options of ``fairseq-train`` for a run; each batch has all strings by default."""
        options = [
            *("--task", "parity", "--parity-max-length", self.max_length),
            *("--arch", self.arch, "--encoder-embed-dim", self.dim),
            *("--encoder-layers", self.layers, "--criterion", "sequence_classification"),
            *("--optimizer", "adam", "--lr", learning_rate, "--seed", seed),
            *("--batch-size", 2 ** (self.max_length + 1) - 2, "--max-update", updates),
            *("--cpu", "--disable-validation", "--no-save", "--log-format", "json"),
            *("--num-workers", 0),  # else each update starts a process
            *self.options,
            *(("--user-dir", INITIALISATION) if self.arch.endswith(TORCH) else ()),
        ]
        return [str(option) for option in options]


def table(max_length: int) -> list[Ensemble]:
    """Both models in all sizes."""
    sizes = product((4, 6, 8, 10), (1, 2, 3, 4), (VANILLA, NODE))
    return [Ensemble(arch, max_length, dim, layers) for dim, layers, arch in sizes]


def variants(dim: int, layers: int) -> list[Ensemble]:
    """N-ODE Transformers with and without skip connection and time-dependent attention."""
    flags = product(((), ("--skip-connection",)), ((), ("--time-dependent-attention",)))
    return [Ensemble(NODE, 6, dim, layers, skip + time) for skip, time in flags]


def regularization(max_length: int, *between: float) -> list[Ensemble]:
    """Both models, and the N-ODE Transformer with arclength weights 4^(2-i), i = 1..15.

    Args:
        between: more weights, which the paper does not have.
    """
    weights = sorted([4.0 ** (2 - i) for i in range(1, 16)] + [*between], reverse=True)
    options = [("--arclength-weight", f"{weight:g}") for weight in weights]
    regularized = [Ensemble(NODE, max_length, 8, 2, each) for each in options]
    return [Ensemble(VANILLA, max_length, 8, 2), Ensemble(NODE, max_length, 8, 2), *regularized]


def settings() -> list[Ensemble]:
    """(8, 2) of Table 1 as it is, and in other ways that the paper may mean.

    A final time of 4 is equivalent to a vector field four times as large.
    """
    both = [
        ((), LEARNING_RATES),
        (("--optimizer", "sgd", "--momentum", "0.9"), (0.003, 0.01, 0.03)),
        ((), (1e-4, 1e-2)),
        (("--token-positional-embeddings",), LEARNING_RATES),
        (("--parity-visible-padding",), LEARNING_RATES),
        (("--batch-size", "16"), LEARNING_RATES),
    ]
    of_the_ode = [("--ode-rtol", "1e-3", "--ode-atol", "1e-3"), ("--ode-final-time", "4")]
    return [
        *(Ensemble(arch, 6, 8, 2, *changes) for changes in both for arch in (VANILLA, NODE)),
        *(Ensemble(NODE, 6, 8, 2, options) for options in of_the_ode),
        *(Ensemble(arch + TORCH, 6, 8, 2) for arch in (VANILLA, NODE)),
    ]


# The experiments by the paper's names of its tables and figures, and one that is not in the paper.
TABLES = {"table1": table(6), "table2": table(8), "table3": table(10)}
HISTOGRAMS = {
    "figure1": variants(8, 2),
    "figure3": variants(4, 1),
    "figure4": variants(4, 2),
    "figure5": variants(8, 1),
}
CURVES = {
    "figure2": regularization(6, 0.5, 0.125, 0.03),  # see docs/papers/node_transformer.md
    "figure6": regularization(8),
    "figure7": regularization(10),
}
EXPERIMENTS = {**TABLES, **HISTOGRAMS, **CURVES, "settings": settings()}

# The options that choose a part of an experiment: attribute of an ensemble, type and help.
FILTERS = {
    "dims": ("dim", int, "widths d"),
    "layers": ("layers", int, "numbers N of layers or blocks"),
    "weights": ("weight", float, "weights of the arclength; 0 for none"),
    "arch": ("arch", str, "models"),
}


def make_parser(description: str) -> argparse.ArgumentParser:
    """The parser of the options that both commands have."""
    parser = argparse.ArgumentParser(
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("experiment", choices=EXPERIMENTS, help="table or figure of the paper")
    add("--out", type=Path, default=Path("data/parity"), help="folder of all results")
    add("--runs", type=positive_int, default=72, help="runs of each ensemble")
    add("--updates", type=positive_int, default=3000, help="updates of each run")
    what = "CSV files with more finished runs of as many updates"
    add("--reports", type=Path, nargs="+", default=[], help=what)
    for option, (_, kind, what) in FILTERS.items():
        add(f"--{option}", type=kind, nargs="+", help=f"only these {what}")
    return parser


def choose(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[Ensemble]:
    """The ensembles that a command line asks for; bad options end the program."""
    ensembles = EXPERIMENTS[args.experiment]
    for option, (attribute, *_) in FILTERS.items():
        values = {getattr(ensemble, attribute) for ensemble in ensembles}
        wanted = getattr(args, option) or values
        if not values.issuperset(wanted):
            asked, there = (" ".join(map(str, some)) for some in (wanted, sorted(values)))
            parser.error(f"--{option} {asked}: {args.experiment} has {there}")
        ensembles = [e for e in ensembles if getattr(e, attribute) in wanted]
    return ensembles


def results_file(args: argparse.Namespace) -> Path:
    """The CSV file of all runs with as many updates, of any experiment."""
    return args.out / f"updates{args.updates}.csv"


def read_results(args: argparse.Namespace) -> dict[tuple, Result]:
    """The finished runs, also of ``--reports``, by ensemble, learning rate and seed.

    Raises:
        ValueError: a file lacks a column.
    """
    results = {}
    for path in [*args.reports, *filter(Path.exists, [results_file(args)])]:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if missing := [name for name in Result._fields if name not in row]:
                    raise ValueError(f"--reports {path}: it has no column {', '.join(missing)}")
                columns = Result.__annotations__.items()
                result = Result(*(kind(row[name]) for name, kind in columns))
                results[result[:3]] = result
    return results
