"""Answer the protocol's questions: does one model's accuracy differ from the others'?

    python examples/scoreboard/questions.py examples/scoreboard/long_text --model transject

For each other architecture of ``results.csv``, at the setting that validated best: the difference
of the test accuracies with Welch's 95% interval over seeds, Welch's p-value, and a p-value over
texts: of each text, the difference between the shares of seeds that are right, with signs permuted
at random. Both p-values are corrected by Holm's method for the number of others.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from publish import read_answers
from scipy.stats import ttest_ind

from fairseq_odeformers.files import markdown_table
from odeformers.compare.results.rows import read_comparison

DRAWS, BLOCK, SEED = 100_000, 100, 1


def permute_signs(differences: np.ndarray) -> float:
    """The two-sided p-value of a mean under random signs of what it is the mean of."""
    generator, observed = np.random.default_rng(SEED), abs(differences.sum())
    extreme = 0
    for _ in range(DRAWS // BLOCK):
        signs = generator.integers(0, 2, (BLOCK, len(differences)), dtype=np.int8) * 2 - 1
        extreme += int((abs(signs @ differences) >= observed - 1e-9).sum())
    return (1 + extreme) / (1 + DRAWS)


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """p-values, adjusted so that the chance of any false rejection stays below the level."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for place, number in enumerate(np.argsort(p_values)):
        largest = max(largest, (len(p_values) - place) * p_values[number])
        corrected[number] = min(1.0, largest)
    return corrected


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="what publish.py has made")
    parser.add_argument("--model", required=True, metavar="ARCH")
    parser.add_argument("--others", nargs="+", metavar="ARCH", help="(default: all)")
    args = parser.parse_args()
    scored = next((table.main for table in read_comparison(args.folder).tables), {})
    if missing := {args.model, *(args.others or ())} - {*scored}:
        raise ValueError(f"{args.folder} has no scored runs of {', '.join(sorted(missing))}")
    answers = read_answers(args.folder)
    accuracies, shares = {}, {}
    for name, runs in scored.items():
        accuracies[name] = [row.value for row in runs]
        shares[name] = np.mean([answers[row.run] for row in runs], axis=0)
    others = args.others or [name for name in scored if name != args.model]
    tests = [ttest_ind(accuracies[args.model], accuracies[o], equal_var=False) for o in others]
    over_seeds = correct_by_holm([float(test.pvalue) for test in tests])
    over_texts = correct_by_holm([permute_signs(shares[args.model] - shares[o]) for o in others])
    rows = [["other", "seeds", "difference", "95% interval", "p over seeds", "p over texts"]]
    for other, test, seeds, texts in zip(others, tests, over_seeds, over_texts):
        low, high = test.confidence_interval()
        difference = np.mean(accuracies[args.model]) - np.mean(accuracies[other])
        count = f"{len(accuracies[args.model])}, {len(accuracies[other])}"
        interval = f"{low:+.2f} to {high:+.2f}"
        rows.append([other, count, f"{difference:+.2f}", interval, f"{seeds:.2g}", f"{texts:.2g}"])
    print(markdown_table(rows), end="")


if __name__ == "__main__":
    main()
