"""Draw the BLEU of TransEvolve for learning rates and warm-ups (Dutta et al. 2021, Figure 2).

RUNS is the --out of ``odeformers compare examples/transevolve/figure2.yaml``. Each run counts with
its maximum BLEU over the checkpoints that were scored, the best one and the average of the last
ten; the paper's is "the maximum BLEU score" of a run (appendix C). Prints a table in Markdown, and
leaves ``figure2.csv``, one row per run, and ``figure2.png`` in RUNS. Needs the extra ``plots``.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from fairseq_odeformers.files import markdown_table, read_lines, write_csv
from odeformers.plots import BLACK, SKY, panels, save

NAME = re.compile(r"([\d.]+)-(\d+)-seed(\d+)")
SCORE = re.compile(r"uncased: .*? = ([\d.]+) ")

Setting = tuple[str, float, int]  # pair of languages, lr_max, warm-up
Scores = Mapping[Setting, Mapping[int, float]]  # the BLEU of each seed


def read_scores(folder: Path) -> Scores:
    """The maximum BLEU of each finished run.

    Raises:
        ValueError: no run has finished, or a line of one is no score.
    """
    scores: dict[Setting, dict[int, float]] = defaultdict(dict)
    for path in folder.glob("*/*/averaged.test.score"):
        if name := NAME.fullmatch(path.parent.name):
            factor, warmup, seed = name.groups()
            pair = path.parent.parent.name
            scores[pair, float(factor), int(warmup)][int(seed)] = maximum(path.parent)
    if not scores:
        raise ValueError(f"{folder} has no finished run of figure2.yaml")
    return {setting: dict(sorted(scores[setting].items())) for setting in sorted(scores)}


def maximum(run: Path) -> float:
    """The highest uncased BLEU that score-wmt14 has printed of a run's translations."""
    found = []
    for path in run.glob("*.test.score"):
        matches = list(filter(None, map(SCORE.match, read_lines(path))))
        if not matches:
            raise ValueError(f"{path}: no BLEU of score-wmt14")
        found += [float(match[1]) for match in matches]
    return max(found)


def table(scores: Scores) -> str:
    rows = [["pair", "lr_max", "warm-up", "seeds", "BLEU, mean", "smallest", "largest"]]
    for (pair, factor, warmup), runs in scores.items():
        values = list(runs.values())
        bleu = (f"{value:.2f}" for value in (fmean(values), min(values), max(values)))
        rows.append([pair, str(factor), f"{warmup:,}", str(len(values)), *bleu])
    return markdown_table(rows)


def draw(scores: Scores) -> Figure:
    """A box over the seeds for each setting, a panel for each pair of languages."""
    pairs = sorted({pair for pair, _, _ in scores})
    figure, grid = panels(len(pairs), len(pairs), 4.6, 3.6)
    for axes, pair in zip(grid, pairs):
        of_pair = {
            f"{factor}, {warmup:,}": list(runs.values())
            for (name, factor, warmup), runs in scores.items()
            if name == pair
        }
        axes.boxplot(
            list(of_pair.values()),
            patch_artist=True,
            boxprops={"facecolor": SKY},
            medianprops={"color": BLACK},
        )
        axes.set_xticks(range(1, len(of_pair) + 1), of_pair, rotation=30)
        axes.set(title=pair, xlabel="lr_max, warm-up (updates)", ylabel="BLEU, newstest2014")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", metavar="RUNS", type=Path)
    args = parser.parse_args()
    try:
        scores = read_scores(args.runs)
        rows = [
            {"pair": pair, "lr_max": factor, "warmup": warmup, "seed": seed, "bleu": bleu}
            for (pair, factor, warmup), runs in scores.items()
            for seed, bleu in runs.items()
        ]
        write_csv(args.runs / "figure2.csv", rows)
        save(draw, scores, args.runs / "figure2.png")
    except (ValueError, OSError) as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")
    print(table(scores), end="")


if __name__ == "__main__":
    main()
