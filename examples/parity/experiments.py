"""The experiments of the N-ODE Transformer (Baier-Reinio and De Sterck 2020), and their runs."""

import argparse
import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from fairseq_odeformers.options import positive_int

VANILLA, NODE = "vanilla_transformer", "node_transformer"
LOG = "train.log.gz"
KEY = ("ensemble", "learning_rate", "seed")
LEARNING_RATES = (3e-4, 1e-3, 3e-3)  # the paper does not say which; see README.md


@dataclass(frozen=True)
class Ensemble:
    """Runs of one model on one set of strings, which differ in learning rate and seed.

    Attributes:
        max_length: of the strings.
        dim: width d.
        layers: number N of layers or N-ODE blocks.
        options: others of ``fairseq-train``, which replace those that all runs have.
        learning_rates: of the runs, in turn.
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
        """Of the arclength."""
        return float(self.options[1]) if "--arclength-weight" in self.options else 0.0


@dataclass(frozen=True)
class Run:
    """A training of an ensemble; its number, from 0, gives the learning rate and the seed."""

    ensemble: Ensemble
    number: int
    updates: int

    @property
    def learning_rate(self) -> float:
        rates = self.ensemble.learning_rates
        return rates[self.number % len(rates)]

    @property
    def seed(self) -> int:
        return 1 + self.number

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others with as many updates: the columns ``KEY`` of a report."""
        return self.ensemble.name, str(self.learning_rate), str(self.seed)

    def folder(self, out: Path) -> Path:
        """Where its log stands once it is finished."""
        name = f"lr{self.learning_rate:g}-seed{self.seed}"
        return out / f"updates{self.updates}" / self.ensemble.name / name

    def log(self, out: Path) -> Path | None:
        """Its log, or that of a finished run with more updates, which begins with the same ones."""
        counts = (int(folder.name[len("updates") :]) for folder in out.glob("updates*"))
        for updates in sorted(count for count in counts if count >= self.updates):
            log = replace(self, updates=updates).folder(out) / LOG
            if log.exists():
                return log
        return None

    def options(self) -> list[str]:
        """Options of ``fairseq-train`` that determine the result; a batch has all strings."""
        ensemble = self.ensemble
        options = [
            *("--task", "parity", "--parity-max-length", ensemble.max_length),
            *("--arch", ensemble.arch, "--encoder-embed-dim", ensemble.dim),
            *("--encoder-layers", ensemble.layers),
            *("--criterion", "sequence_classification"),
            *("--optimizer", "adam", "--lr", self.learning_rate, "--seed", self.seed),
            *("--batch-size", 2 ** (ensemble.max_length + 1) - 2, "--max-update", self.updates),
            *("--cpu", "--disable-validation", "--no-save", "--log-format", "json"),
            *("--num-workers", 0),  # else each update starts a process
            *ensemble.options,
        ]
        return [str(option) for option in options]


def table(max_length: int) -> list[Ensemble]:
    """Both models of all sizes."""
    sizes = product((4, 6, 8, 10), (1, 2, 3, 4), (VANILLA, NODE))
    return [Ensemble(arch, max_length, dim, layers) for dim, layers, arch in sizes]


def variants(dim: int, layers: int) -> list[Ensemble]:
    """N-ODE Transformers with and without skip connection and time-dependent attention."""
    flags = product(((), ("--skip-connection",)), ((), ("--time-dependent-attention",)))
    return [Ensemble(NODE, 6, dim, layers, skip + time) for skip, time in flags]


def regularization(max_length: int) -> list[Ensemble]:
    """N-ODE Transformers with weights 4^(2-i), i = 1..15, of the arclength; and those without."""
    weights = [("--arclength-weight", f"{4.0 ** (2 - i):g}") for i in range(1, 16)]
    regularized = [Ensemble(NODE, max_length, 8, 2, options) for options in weights]
    return [Ensemble(VANILLA, max_length, 8, 2), Ensemble(NODE, max_length, 8, 2), *regularized]


def settings() -> list[Ensemble]:
    """(8, 2) of Table 1 as it is, and with what the paper may have done otherwise.

    A final time of 4 is that of the paper with a vector field four times as large.
    """
    both = [
        ((), LEARNING_RATES),
        (("--optimizer", "sgd", "--momentum", "0.9"), (0.003, 0.01, 0.03)),
        ((), (1e-4, 1e-2)),
        (("--token-positional-embeddings",), LEARNING_RATES),
        (("--parity-visible-padding",), LEARNING_RATES),
    ]
    of_the_ode = [("--ode-rtol", "1e-3", "--ode-atol", "1e-3"), ("--ode-final-time", "4")]
    return [
        *(Ensemble(arch, 6, 8, 2, *how) for how in both for arch in (VANILLA, NODE)),
        *(Ensemble(NODE, 6, 8, 2, options) for options in of_the_ode),
    ]


# By the names that the paper gives to its tables and figures, and one that is not there.
TABLES = {"table1": table(6), "table2": table(8), "table3": table(10)}
HISTOGRAMS = {
    "figure1": variants(8, 2),
    "figure3": variants(4, 1),
    "figure4": variants(4, 2),
    "figure5": variants(8, 1),
}
CURVES = {"figure2": regularization(6), "figure6": regularization(8), "figure7": regularization(10)}
EXPERIMENTS = {**TABLES, **HISTOGRAMS, **CURVES, "settings": settings()}

# Options that choose a part of an experiment: their attribute of an ensemble, type and help.
FILTERS = {
    "dims": ("dim", int, "widths d"),
    "layers": ("layers", int, "numbers N of layers or blocks"),
    "weights": ("weight", float, "weights of the arclength, of which 0 is none"),
    "arch": ("arch", str, "models"),
}


def finished(reports: Iterable[Path]) -> dict[tuple[str, ...], dict[str, str]]:
    """The rows of CSV files that report.py has written, by the keys of their runs.

    Raises:
        ValueError: a file lacks the columns.
    """
    rows = {}
    for path in reports:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if not row.keys() >= {*KEY}:
                    raise ValueError(f"--reports {path}: give CSV files that report.py has written")
                rows[tuple(row[column] for column in KEY)] = row
    return rows


def make_parser(description: str) -> argparse.ArgumentParser:
    """The options that both commands have."""
    parser = argparse.ArgumentParser(
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("experiment", choices=EXPERIMENTS, help="table or figure of the paper")
    add("--out", type=Path, default=Path("data/parity"), help="folder of all runs")
    add("--runs", type=positive_int, default=72, help="runs of each ensemble")
    add("--updates", type=positive_int, default=3000, help="updates of each run")
    what = "CSV files of report.py with runs of as many updates whose logs are gone"
    add("--reports", type=Path, nargs="+", default=[], help=what)
    for option, (_, kind, what) in FILTERS.items():
        add(f"--{option}", type=kind, nargs="+", help=f"only these {what}")
    return parser


def chosen(parser: argparse.ArgumentParser, args: argparse.Namespace) -> dict[Ensemble, list[Run]]:
    """The ensembles that a command line asks for, each with its runs; stop at bad options."""
    ensembles = EXPERIMENTS[args.experiment]
    for option, (attribute, *_) in FILTERS.items():
        found = {getattr(ensemble, attribute) for ensemble in ensembles}
        wanted = getattr(args, option) or found
        if not found.issuperset(wanted):
            given, known = (" ".join(map(str, values)) for values in (wanted, sorted(found)))
            parser.error(f"--{option} {given}: {args.experiment} has {known}")
        ensembles = [e for e in ensembles if getattr(e, attribute) in wanted]
    return {
        ensemble: [Run(ensemble, number, args.updates) for number in range(args.runs)]
        for ensemble in ensembles
    }
