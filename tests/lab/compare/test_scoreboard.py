"""Scoreboards: differences with intervals whose values are known, and the page that is kept."""

import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from lab.compare.test_results import EVALUATED, write_log
from scipy.stats import t as student
from scipy.stats import ttest_ind

import odeformers
from fairseq_odeformers.lab.compare import scoreboard
from fairseq_odeformers.lab.compare.entry import Entry
from fairseq_odeformers.lab.compare.intervals import correct_by_holm
from fairseq_odeformers.lab.compare.plan import Plan, save_plan
from fairseq_odeformers.lab.compare.recipe import Recipe
from fairseq_odeformers.lab.compare.scoreboard import Finished, compare_families, read_file
from fairseq_odeformers.models.common.papers import family_of

ROOT = Path(__file__).resolve().parents[3]
RUN = Finished("topic", "base", "a", "lr 1", 1, 10, 5, "accuracy", 80.0, "accuracy", 80.0)


def runs(family, *tests, tuned="lr 1", validation=80.0, **changes):
    changes |= {"family": family, "architecture": family, "tuned": tuned, "validation": validation}
    return [replace(RUN, seed=n, test=test, **changes) for n, test in enumerate(tests, start=1)]


def test_differences_have_welch_s_interval():
    """Of (84, 86, 88) from (80, 81, 82): a mean of 5, variances over sizes 4/3 and 1/3."""
    base, ours = compare_families(
        [*runs("base", 80.0, 81.0, 82.0), *runs("ours", 84.0, 86.0, 88.0)]
    )
    a, b = 4 / 3, 1 / 3
    freedom = (a + b) ** 2 / (a**2 / 2 + b**2 / 2)
    half = student.ppf(0.975, freedom) * (a + b) ** 0.5
    assert (base.difference, base.low) == (0, None)
    assert ours.difference == pytest.approx(5)
    assert (ours.low, ours.high) == pytest.approx((5 - half, 5 + half))


@pytest.mark.parametrize(
    "metric, difference", [("ppl", 4.0), ("masked_lm_loss", 4.0), ("accuracy", -4.0)]
)
def test_positive_is_better(metric, difference):
    changes = {"metric": metric}
    _, ours = compare_families([*runs("base", 84.0, **changes), *runs("ours", 80.0, **changes)])
    assert (ours.mean, ours.difference) == (80, difference)
    assert str(ours) == f"{difference:+.1f} (one seed)"


@pytest.mark.parametrize(
    "base, ours, cell",
    [
        ([80.0, 81.0], [81.5, 82.0, 84.0], "+2.0 (3 seeds)"),
        ([80.0, 81.0, 82.0], [81.5, 81.5, 81.5], "+0.5 (3 seeds)"),
    ],
)
def test_few_or_equal_seeds_have_no_interval(base, ours, cell, recwarn):
    """Equal ones happen where texts are few, and say nothing of the variance; a note tells them."""
    cells = compare_families([*runs("base", *base), *runs("ours", *ours)])
    assert str(cells[1]) == cell and not recwarn
    told = "- topic, ours: no interval, since one side's seeds are all equal.\n"
    assert (told in scoreboard.describe(cells)) == (len(base) == 3)


@pytest.mark.parametrize("validated, chosen", [("accuracy", "lr 2"), ("loss", "lr 1")])
def test_the_setting_validates_best_with_the_first_seed(validated, chosen):
    """Whatever its test says, and whatever another seed validates."""
    changes = {"validated": validated}
    tried = [
        *runs("ours", 99.0, tuned="lr 1", validation=1.0, **changes),
        *runs("ours", 70.0, 71.0, tuned="lr 2", validation=2.0, **changes),
    ]
    _, ours = compare_families([*runs("base", 80.0), *tried])
    assert (ours.tuned, ours.seeds) == (chosen, 2 if chosen == "lr 2" else 1)


def test_a_family_without_a_run_in_a_column_says_so():
    columns = [*runs("base", 80.0), *runs("ours", 81.0), *runs("base", 99.953, column="structure")]
    page = scoreboard.describe(compare_families(columns))
    assert "99.95 (one seed)" in page, "not 100.0"
    assert "| ours | +1.0 (one seed) | not run |" in page


def test_a_column_that_cannot_be_compared_is_marked(tmp_path):
    """Its cells and points are left out; the page has its report's words, also from a file."""
    told = {"obstacles": "Too little training.", "reservations": "Not tuned."}
    columns = [
        *(*runs("base", 80.0), *runs("ours", 81.0)),
        *(*runs("base", 20.0, column="late", **told), *runs("ours", 22.0, column="late", **told)),
    ]
    scoreboard.write_csv(tmp_path / "runs.csv", [asdict(run) for run in columns])
    cells = compare_families(read_file(tmp_path / "runs.csv"))
    page = scoreboard.describe(cells)
    assert "| topic, accuracy | late, accuracy ‡ |" in page
    assert "| ours | +1.0 (one seed) | not compared † |" in page
    assert "- late: † Too little training.\n- late: ‡ Not tuned.\n" in page
    topic, late = scoreboard.draw(cells).axes
    assert (topic.get_title(), late.get_title()) == ("topic", "late †")
    assert len(topic.lines) == len(late.lines) + 1, "a point"
    assert [text.get_text() for text in late.texts] == ["n=1", "not compared", "n=1"]


def test_families_are_those_of_the_papers():
    names = {
        "transformer_lm_prenorm": "pre-norm Transformer",
        "transevolve_classifier_fullff_1_prenorm": "TransEvolve",
        "node_transformer_mt": "N-ODE Transformer",
        "macaron_classifier": "Macaron Net",
        "heun_of_a_plugin": "heun_of_a_plugin",  # which a report does not load
    }
    assert {arch: family_of(arch) for arch in names} == names


def test_the_readme_has_the_board():
    """All figures, also the scores of the baseline."""

    def rows(page, heading):
        text = (ROOT / page).read_text("utf-8").partition(heading)[2]
        lines = [line for line in text.splitlines() if line[:1] == "|"]
        header, _, *others = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
        return header, others[:6]

    header, families = rows("examples/scoreboard/scoreboard.md", "# Scoreboard")
    header = [cell.removesuffix(" ‡") for cell in header]
    metrics = {"topic": "accuracy", "structure": "accuracy", "language model": "perplexity"}
    metrics |= {"captions": "BLEU", "software": "BLEU"}
    places = [header.index(f"{column}, {metric}") for column, metric in metrics.items()]
    board = {row[0]: [row[place] for place in places] for row in families}
    _, shown = rows("README.md", "## What we found")
    figures = {family: cells for family, *cells in shown}
    figures["TransJect"] = [cell.replace("no decoder", "not run") for cell in figures["TransJect"]]
    assert figures == board
    cells = [cell for row in board.values() for cell in row if " to " in cell]
    excluding = ("none", "one", "two", "three", "four", "five")[
        sum("to -" in cell or "(+" in cell for cell in cells)
    ]
    for page in ("README.md", "examples/scoreboard/README.md"):
        text = " ".join((ROOT / page).read_text("utf-8").split())
        assert f"about one of the {len(cells)} would exclude zero" in text, page
        assert f"nly {excluding} of the {len(cells)} intervals exclude zero" in text, page


def test_pages_give_the_smallest_p_value_of_the_board():
    """Of Welch's tests behind its intervals, alone and corrected for their number."""
    runs = read_file(ROOT / "examples/scoreboard/trainings.csv")
    cells = compare_families(runs)

    def scores(cell):
        place = cell.column, cell.architecture, cell.tuned
        return [run.test for run in runs if (run.column, run.architecture, run.tuned) == place]

    bases = {cell.column: scores(cell) for cell in reversed(cells)}  # the first of each column
    p_values = [
        ttest_ind(scores(cell), bases[cell.column], equal_var=False).pvalue
        for cell in cells
        if cell.low is not None
    ]
    smallest, corrected = min(p_values), min(correct_by_holm(p_values))
    assert corrected > 0.05
    for page, figures in {
        "README.md": f"the smallest p-value is {corrected:.2f}.",
        "examples/scoreboard/README.md": f"is {smallest:.3f}, corrected (Holm) {corrected:.2f}.",
    }.items():
        assert figures in " ".join((ROOT / page).read_text("utf-8").split()), page


def test_a_damaged_file_of_runs_is_named_with_its_line(tmp_path):
    path = tmp_path / "runs.csv"
    text = (ROOT / "examples/scoreboard/trainings.csv").read_text(encoding="utf-8")
    path.write_text(text.replace("954", "many", 1))
    with pytest.raises(ValueError, match=r"runs\.csv, line 2: .*many"):
        read_file(path)
    old = "\n".join(line.rsplit(",", 2)[0] for line in text.splitlines())
    path.write_text(old)  # of an earlier version
    assert len(read_file(path)) == text.count("\n") - 1
    path.write_text(text.replace("column", "colour", 1))
    with pytest.raises(ValueError, match=r"runs\.csv, line 1: give the columns column, family"):
        read_file(path)


def test_a_run_that_is_given_twice_is_refused(tmp_path):
    path = str(ROOT / "examples/scoreboard/trainings.csv")
    with pytest.raises(ValueError, match=r"topic has seed 1 of .* twice; give .*NAME=RUNS"):
        scoreboard.write_scoreboard([path, path], tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_scores_are_of_the_best_checkpoint(tmp_path):
    """For every family, also where a comparison has averaged checkpoints as well.

    The number of parameters is the plan's, as in the report.
    """
    recipe = Recipe("absent", {"task": "language_modeling"}, {}, average=2)
    options = {"arch": "transformer_lm"}
    entry, other = (
        Entry("a", options, 1230, epoch_updates=20, tried={"lr": rate}) for rate in "12"
    )
    save_plan(Plan(recipe, (entry, other), test_sets={"test": None}), tmp_path)
    folder = tmp_path / "a-lr-1-seed1"
    folder.mkdir()
    (folder / "trained").touch()
    write_log(folder / "train.log", (10, 5.0, 7))
    for name, perplexity in (("checkpoint_best", 8), ("averaged", 7)):
        (folder / f"{name}.test.out").write_text(EVALUATED.format(120, perplexity))
    (run,) = scoreboard.read_runs(str(tmp_path))
    assert (run.test, run.parameters) == (8, 1230)
    assert run.obstacles.startswith("Too little training to compare: a (less than an epoch)")
    assert "a chose the smallest lr, 1; " in run.reservations
    assert "best" in scoreboard.describe(compare_families([run]))
    (folder / "train.log").unlink()
    with pytest.raises(ValueError, match="a-lr-1-seed1/train.log: no validation, .* --redo a$"):
        scoreboard.read_runs(str(tmp_path))


def test_a_column_tells_how_many_test_texts_it_has(tmp_path):
    """And how far they let a score be off, and which models have learned too little, as its report.

    The second model predicts one class.
    """
    recipe = Recipe("absent", {"task": "sentence_prediction"}, {})
    entries = tuple(Entry(name, {"arch": "transject"}) for name in ("ab", "aa"))
    save_plan(Plan(recipe, entries, test_sets={"test": None}), tmp_path)
    for entry in entries:
        folder = tmp_path / f"{entry.name}-seed1"
        folder.mkdir()
        write_log(folder / "train.log", (10, 5.0, 7))
        rows = (f"{n}\ta\t{entry.name[n % 2]}\t0.5\t0.5\n" for n in range(100))
        table = "".join(["id\ttarget\tprediction\tp(a)\tp(b)\n", *rows])
        (folder / "checkpoint_best.test.tsv").write_text(table)
    sound, idle = scoreboard.read_runs(str(tmp_path))
    assert "With 100 texts, the 95% interval of a score is about ±9.8" in sound.reservations
    assert (sound.obstacles, idle.obstacles[:44]) == (
        "",
        "Too little training to compare: aa (it predi",
    )


@pytest.mark.parametrize(
    "line, told",
    [
        ("{} --out board --csv tables", "--csv and --latex: for the report of one comparison"),
        ("topic={}", "topic={}: for a scoreboard give --out DIR"),
        ("{} {}", "{} {}: for a scoreboard give --out DIR"),
        ("{}", "{}: it has no plan.yaml; give a folder that was --out"),
    ],
)
def test_a_scoreboard_is_told_from_a_report(line, told, tmp_path, capsys):
    with pytest.raises(SystemExit):
        odeformers.main(["report", *line.replace("{}", str(tmp_path)).split()])
    assert told.replace("{}", str(tmp_path)) in capsys.readouterr().err


def test_a_model_that_diverges_does_not_hide_the_others():
    """Its interval leaves the picture, which shows the other intervals.

    Arrows tell it, and the difference in figures; the baseline is at 0.
    """
    groups = {"base": (80, 80.5, 81), "a": (82, 82.5, 83), "b": (81, 82, 82.5)}
    groups |= {"c": (82, 82.2, 82.4), "wide": (84, 84, 50)}
    cells = compare_families([run for name, tests in groups.items() for run in runs(name, *tests)])
    (axes,) = scoreboard.draw(cells).axes
    low, high = axes.get_xlim()
    *others, wide = cells[1:]
    assert all(low < cell.low < cell.high < high for cell in others)
    assert wide.low < wide.difference < low
    assert "-7.8" in [text.get_text() for text in axes.texts]
    marks = [(line.get_marker(), *line.get_xydata()[0]) for line in axes.lines]
    assert ("D", 0, 0) in marks and ("<", low, 4) in marks and (">", high, 4) in marks
    assert [place for marker, _, place in marks if marker in "<>"] == [4, 4]


def test_the_page_of_the_scoreboard_is_made_from_its_runs(tmp_path):
    """By the command; the figures are those of the file of runs, and nobody's memory."""
    folder = ROOT / "examples" / "scoreboard"
    odeformers.main(["report", str(folder / "trainings.csv"), "--out", str(tmp_path)])
    for name in (scoreboard.PAGE, scoreboard.CELLS, scoreboard.RUNS):
        assert (tmp_path / name).read_text("utf-8") == (folder / name).read_text("utf-8"), name
    assert (tmp_path / scoreboard.PICTURE).stat().st_size < 300_000


@pytest.mark.parametrize("page", ["README.md", "docs/choosing.md", "examples/scoreboard/README.md"])
def test_pages_quote_the_board(page):
    """Each difference with an interval is one of the board's."""
    board = (ROOT / "examples/scoreboard/scoreboard.md").read_text("utf-8")
    text = " ".join((ROOT / page).read_text("utf-8").split())
    for cell in re.findall(r"[+-]\d+\.\d \([^)]*?(?:to|seeds?)[^)]*\)", text):
        assert cell in board, cell
