"""The numbers of a report of classifiers, by their definitions, from the files of the runs."""

import base64
import csv
import json
import re
from statistics import fmean, stdev

import pytest
from scipy.stats import binomtest, dunnett
from scipy.stats import t as student
from sklearn.metrics import accuracy_score, f1_score

from tests.odeformers.compare.pages import cell, numbers, table

ARCHS = ["base", "good", "poor"]
BEST = {"base": 40, "good": 60, "poor": 40}  # updates
SMALLEST = {"base": 60, "good": 40, "poor": 60}
SEEDS = 1, 2, 3


@pytest.fixture(scope="module")
def report(board):
    return (board / "report.md").read_text("utf-8")


@pytest.fixture(scope="module")
def predictions(board):
    """Right classes and predicted ones of each run."""
    results = {}
    for arch in ARCHS:
        for seed in SEEDS:
            with open(board / f"{arch}-seed{seed}/checkpoint_best.test.tsv", newline="") as file:
                rows = list(csv.DictReader(file, delimiter="\t"))
            assert [int(row["id"]) for row in rows] == [*range(120)]
            results[arch, seed] = [[row[key] for row in rows] for key in ("target", "prediction")]
    return results


@pytest.fixture(scope="module")
def logs(board):
    """The statistics in the log of each run, by their kind."""
    results = {}
    for arch in ARCHS:
        for seed in SEEDS:
            text = (board / f"{arch}-seed{seed}/train.log").read_text("utf-8")
            results[arch, seed] = {
                kind: [json.loads(stats) for stats in re.findall(rf"\| {kind} \| (\{{.*\}})", text)]
                for kind in ("valid", "train")
            }
    return results


@pytest.fixture(scope="module")
def accuracies(predictions):
    return {
        arch: [100 * accuracy_score(*predictions[arch, seed]) for seed in SEEDS] for arch in ARCHS
    }


def spread(values):
    """Mean, standard deviation, and the ends of Student's 95% interval."""
    half = student.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return [fmean(values), stdev(values), fmean(values) - half, fmean(values) + half]


def test_the_fixture_distinguishes_all_choices(logs, accuracies):
    """Best, last and smallest loss are of three updates, and clocks, seeds and models differ."""
    for (arch, _), log in logs.items():
        updates = [int(stats["valid_num_updates"]) for stats in log["valid"]]
        losses = [float(stats["valid_loss"]) for stats in log["valid"]]
        shares = [float(stats["valid_accuracy"]) for stats in log["valid"]]
        assert updates == [20, 40, 60, 80]
        assert updates[shares.index(max(shares))] == BEST[arch]
        assert updates[losses.index(min(losses))] == SMALLEST[arch]
        assert all(stats["train_cpu"] != stats["train_train_wall"] for stats in log["train"])
    assert len({value for values in accuracies.values() for value in values}) == 9


def test_scores_are_means_with_students_interval(report, accuracies, predictions):
    rows = table(report, " against ")
    for arch in ARCHS:
        f1 = [100 * f1_score(*predictions[arch, seed], average="macro") for seed in SEEDS]
        for column, values in (("accuracy", accuracies[arch]), ("macro-F1", f1)):
            shown = numbers(rows[arch][column].replace(" to ", " "))
            assert shown == pytest.approx(spread(values), abs=0.051), (arch, column)
        each = numbers(rows[arch]["seed by seed"].replace(",", " "))
        assert each == pytest.approx(accuracies[arch], abs=0.051)


def test_differences_have_dunnetts_interval(report, accuracies):
    base, *others = ARCHS
    rows = table(report, " against ")
    samples = [accuracies[arch] for arch in others]
    test = dunnett(*samples, control=accuracies[base], random_state=0)
    interval = test.confidence_interval()
    for arch, low, high, p in zip(others, interval.low, interval.high, test.pvalue):
        expected = [fmean(accuracies[arch]) - fmean(accuracies[base]), low, high]
        assert numbers(rows[arch][f"accuracy against {base}"]) == pytest.approx(expected, abs=0.07)
        assert numbers(rows[arch]["p over seeds"]) == pytest.approx([p], abs=2e-3)
    assert not numbers(rows[base][f"accuracy against {base}"])


def test_p_values_are_mcnemars_and_adjusted(report, predictions):
    """Benjamini and Hochberg's method adjusts them, and each stands at its seed and model."""
    base, *others = ARCHS
    p_values = {}
    for arch in others:
        for seed in SEEDS:
            targets, theirs = predictions[base, seed]
            rights = [
                (a == target, b == target)
                for target, a, b in zip(targets, predictions[arch, seed][1], theirs)
            ]
            gained, lost = rights.count((True, False)), rights.count((False, True))
            assert gained and lost
            p_values[arch, seed] = binomtest(gained, gained + lost).pvalue
    order = sorted(p_values, key=p_values.get)
    assert order not in ([*p_values], [*p_values][::-1])
    adjusted, smallest = {}, 1.0
    for place, run in reversed([*enumerate(order, start=1)]):
        smallest = min(smallest, len(order) / place * p_values[run])
        adjusted[run] = smallest
    assert len(set(adjusted.values())) > 3
    rows = table(report, "p over texts")
    for arch in others:
        found = numbers(rows[arch]["p over texts"].replace(",", " "))
        assert found == pytest.approx([adjusted[arch, seed] for seed in SEEDS], abs=1e-3)


def test_trainings_are_described_by_their_logs(report, logs):
    """The loss belongs to the scored checkpoint; the speed counts all tokens per CPU time."""
    rows = table(report, "updates")
    for arch in ARCHS:
        of_arch = [logs[arch, seed] for seed in SEEDS]
        best = BEST[arch] // 20 - 1
        losses = [float(log["valid"][best]["valid_loss"]) for log in of_arch]
        shares = [float(log["valid"][best]["valid_accuracy"]) for log in of_arch]
        seconds = [sum(float(line["train_cpu"]) for line in log["train"]) for log in of_arch]
        tokens = [sum(20 * float(line["train_wpb"]) for line in log["train"]) for log in of_arch]
        speeds = [number / cost for number, cost in zip(tokens, seconds)]
        row = rows[arch]
        assert cell(row, "updates") == "80" and cell(row, "seeds") == "3"
        assert numbers(cell(row, "CPU time").split(":")[-1]) == [fmean(seconds)]
        assert numbers(cell(row, "validation loss"))[0] == pytest.approx(fmean(losses), abs=6e-4)
        found = numbers(cell(row, "validation accuracy"))[0]
        assert found == pytest.approx(fmean(shares), abs=0.051)
        assert numbers(cell(row, "tokens per CPU second"))[0] == pytest.approx(fmean(speeds), abs=1)


def test_both_pages_have_the_same_pictures_and_tables(board, report):
    """The HTML page needs no other file."""
    page = (board / "report.html").read_text("utf-8")
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", report)
    assert pictures
    embedded = re.findall(r'src="data:image/png;base64,(.*?)"', page)
    assert [base64.b64decode(each) for each in embedded] == [
        (board / name).read_bytes() for name in pictures
    ]
    assert all((board / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    assert "src=" not in page.replace('src="data:', "") and "<link" not in page
    rows = table(report, " against ")
    for arch in ARCHS[1:]:
        for found in numbers(rows[arch]["accuracy"]):
            assert f"{abs(found):.1f}" in page
