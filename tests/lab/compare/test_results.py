"""What runs have left, on logs and predictions with known statistics."""

import json
import re
from dataclasses import asdict, replace

import pytest
import yaml
from sacrebleu import corpus_bleu, corpus_chrf

from fairseq_odeformers.lab.compare import outcomes
from fairseq_odeformers.lab.compare.caveats import (
    find_ceiling,
    find_obstacles,
    find_reservations,
    find_undertrained,
    find_worse_averages,
)
from fairseq_odeformers.lab.compare.entry import Entry
from fairseq_odeformers.lab.compare.figures import (
    Quality,
    choose_time_unit,
    distinct,
    learning_curves,
    quality_against,
)
from fairseq_odeformers.lab.compare.intervals import correct_by_holm
from fairseq_odeformers.lab.compare.logs import Training, read_training
from fairseq_odeformers.lab.compare.outcomes import Classes, Outcome, Perplexity, Translations
from fairseq_odeformers.lab.compare.pages import Section, html_page
from fairseq_odeformers.lab.compare.plan import Plan, load_plan, save_plan, write_plan
from fairseq_odeformers.lab.compare.recipe import Recipe, find_test_sets
from fairseq_odeformers.lab.compare.report import (
    compare_scores,
    compare_seeds,
    draw_quality,
    sections,
    show_differences,
    tabulate_confusion,
    write_report,
)
from fairseq_odeformers.lab.compare.results import Results, read_results
from fairseq_odeformers.lab.compare.runs import BEST
from fairseq_odeformers.lab.plots import ARCHITECTURES

REFERENCES = [
    "Two young, White males are outside near many bushes.",
    "Several men in hard hats are operating a giant pulley system.",
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "Someone's dog isn't in the house.",
] * 25
PERFECT = [
    "two young , white males are outside near many bushes .",
    "several men in hard hats are operating a giant pulley system .",
    "a man in a blue shirt is standing on a ladder cleaning a window .",
    "someone &apos;s dog isn &apos;t in the house .",
] * 25
WORSE = [text.replace("a ", "one ").replace("are", "is") for text in PERFECT]


def write_log(path, *epochs):
    """A log as fairseq writes it, of epochs of updates so far, validation loss and seconds."""
    text = (
        "2026-11-22 16:38:37 | INFO | train | num. shared model params: 1,300 (num. trained: "
        "1,234)\n"
        '2026-11-22 16:38:37 | INFO | train_inner | {"epoch": 1, "num_updates": "1", "wps": "8"}\n'
    )
    for updates, loss, seconds in epochs:
        valid = {"valid_loss": loss, "valid_num_updates": updates, "valid_mcc": 10 - loss}
        valid["epoch"] = 1
        train = {"train_train_wall": seconds, "train_num_updates": updates, "train_loss": loss}
        for kind, stats in (("valid", valid), ("train", train)):
            stats = json.dumps({name: str(value) for name, value in stats.items()})
            text += f"2026-11-22 16:38:37 | INFO | {kind} | {stats}\n"
    path.write_text(text)
    return path


def translations(path, texts, references=REFERENCES):
    """Translations that fairseq-generate has printed, the last sentence first."""
    pairs = enumerate(zip(PERFECT, texts))
    lines = [f"T-{n}\t{right}\nH-{n}\t-0.1\t{text}\n" for n, (right, text) in pairs]
    path.write_text("".join(reversed(lines)))
    return Translations(path, "en", references)


def test_of_what_an_interrupted_training_repeats_the_last_counts(tmp_path):
    """Seconds are those of training alone."""
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.5, 100), (20, 4.0, 9), (30, 4.2, 4))
    found = read_training(log, "mcc")
    assert (found.parameters, found.updates, found.tokens_per_second) == (1234, [10, 20, 30], 8)
    assert found.losses == [5.0, 4.0, 4.2] and found.metrics == [5.0, 6.0, 5.8]
    assert found.seconds == [7, 16, 20]


def test_a_validation_within_an_epoch_has_its_share_of_the_time(tmp_path):
    """Epochs of 10 updates and 7 and 9 seconds; validations after 5 and 15 updates."""
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.0, 9))
    text = log.read_text()
    for update in (5, 15):
        stats = json.dumps({"valid_loss": "3", "valid_num_updates": str(update)})
        text += f"2026-11-22 16:38:37 | INFO | valid | {stats}\n"
    log.write_text(text)
    training = read_training(log)
    assert training.updates == [5, 10, 15, 20]
    assert training.seconds == pytest.approx([3.5, 7, 11.5, 16])
    assert training.train_losses == pytest.approx([5, 5, 4.5, 4])


def test_a_training_loss_is_of_a_full_epoch(tmp_path):
    """The last epoch may end after a batch, whose loss says little."""
    log = write_log(tmp_path / "log", (10, 5.0, 7), (20, 4.0, 9), (21, 0.5, 1))
    assert read_training(log).train_losses == [5.0, 4.0, 4.0]


def test_best_checkpoints_that_come_early_are_told():
    losses = {"a": [3.0, 1.0, 2.0, 2.0, 2.0], "b": [3.0, 2.0, 1.5, 1.4, 1.6]}
    runs = {n: {1: Training(1, [10, 20, 30, 40, 50], v, seconds=[9.0])} for n, v in losses.items()}
    plan = Plan(Recipe("data", {}, {}), tuple(Entry(name, {}) for name in runs))
    notes = [*find_reservations(Results(plan, runs))]
    (early,) = (note for note in notes if "come early" in note)
    assert "early: a (after 40% of the updates). More" in early


def scored(score, main="accuracy", error=1.0):
    """An outcome with one score."""
    outcome = Outcome()
    outcome.main, outcome.scores, outcome.error = main, {main: score}, lambda: error
    return outcome


def test_figures_have_the_units_of_their_values():
    """Parameters have a panel if they differ by more than 10%; costs begin at 0."""
    training = Training(2_000_000, [10, 20], [5.0, 4.0], seconds=[120.0, 300.0])
    curves = learning_curves({"a": [training]}, {"a": [1]}, "bits")
    updates, minutes = (axes.lines[0].get_xdata().tolist() for axes in curves.axes[:2])
    assert (updates, minutes) == ([10, 20], [2, 5])
    for size, panels in ((2_150_000, 1), (2_250_000, 2)):
        points = {"a": Quality(150, 2_000_000, [70.0], 0), "b": Quality(90, size, [70.0], 0)}
        figure = quality_against(points, "accuracy", "headline", "texts")
        time, *sizes = figure.axes
        assert figure.get_suptitle() == "headline"
        assert time.get_xlabel() == "seconds of training" and len(sizes) == panels - 1
        assert [line.get_xydata().tolist() for line in time.lines] == [[[150, 70]], [[90, 70]]]
        assert all(axes.lines[0].get_xdata() == [2] for axes in sizes)
        assert {axes.get_xlim()[0] for axes in (*figure.axes, *curves.axes)} == {0}


@pytest.mark.parametrize("seconds, unit", [(179, "seconds"), (3600, "minutes"), (10801, "hours")])
def test_times_have_a_unit_for_their_length(seconds, unit):
    assert choose_time_unit(seconds)[1] == unit


@pytest.mark.parametrize("metric, best", [("loss", (2, 1)), ("accuracy", (3, 3))])
def test_curves_mark_the_best_checkpoints_and_magnify_what_chose_them(metric, best):
    """A point of each seed, at the loss and at the metric; the bad first values leave the axis."""
    losses = [9.0, 3.0, 2.0, 4.0, 5.0, 6.0], [9.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    shares = [50.0, 80.0, 85.0, 90.0, 89.0, 88.0], [10.0, 80.0, 85.0, 88.0, 87.0, 86.0, 85.0]
    chosen = losses if metric == "loss" else shares
    runs = []
    for values, of_metric in zip(losses, chosen):
        updates = [10 * n for n in range(1, len(values) + 1)]
        runs.append(Training(1, updates, values, of_metric, [2.0 * n for n in updates], values))
    recipe = Recipe("data", {}, {})
    if metric == "accuracy":
        choice = {"best-checkpoint-metric": metric, "maximize-best-checkpoint-metric": True}
        recipe = replace(recipe, train=choice)
    results = Results(Plan(recipe, (Entry("a", {}),)), {"a": dict(enumerate(runs))})
    (figure,) = (part.figure[1] for part in sections(results) if part.figure)
    assert figure.get_suptitle() == (
        "Learning curves: mean of the seeds, and band from lowest to highest\n"
        f"markers: best checkpoint of each seed, by validation {metric}"
    )
    for axes, values, scale in zip(figure.axes, (losses, losses, chosen, chosen), (1, 2, 1, 2)):
        curve, marks = axes.lines
        assert curve.get_xdata().size == 6
        points = [(10 * scale * (at + 1), of_seed[at]) for of_seed, at in zip(values, best)]
        assert [tuple(point) for point in marks.get_xydata()] == points
    for axes in figure.axes[2:]:
        bottom, top = axes.get_ylim()
        assert (1 < bottom < 2 and 4 < top < 6) if metric == "loss" else (84 < bottom and top < 91)


@pytest.mark.parametrize(
    "scores, low, high, headline, bar",
    [
        (([70.0], [70.1]), 66.5, 73.6, "one seed\ndotted {texts}", 1.0),
        (([99.9], [99.95]), 94.9, 100, "one seed\ndotted {texts}", 1.0),
        (([10.0, 80.0], [20.0]), 0, 90, "1 to 2 seeds\n{marks}, dotted {texts}", 1.0),
        (([30.0, 31, 32], [30.0] * 3), 29, 33, "3 seeds\n{marks}, {seeds}", 2.484),
    ],
)
def test_noise_does_not_look_like_a_gap(scores, low, high, headline, bar):
    """An axis spans a tenth of the scores at least, if these can be so high, and bars say more."""
    runs = {name: dict(enumerate(map(scored, of_name))) for name, of_name in zip("ab", scores)}
    plan = Plan(Recipe("data", {}, {}), tuple(Entry(name, {}, 2_000_000) for name in runs))
    trainings = {name: {0: Training(seconds=[300.0])} for name in runs}
    (section,) = draw_quality(Results(plan, trainings, {("test", BEST): runs}), "test")
    figure = section.figure[1]
    bars = {kind: f"bars: 95% interval over the {kind}" for kind in ("texts", "seeds")}
    headline = headline.format(marks="markers: seeds, side by side, lines: their means", **bars)
    assert figure.get_suptitle() == f"accuracy on test, best checkpoint, {headline}"
    bottom, top = figure.axes[0].get_ylim()
    assert bottom <= low + 1 and top >= high - 1 and bottom >= 0 and top <= 100
    (bar_of_first,) = figure.axes[0].containers[0][2]
    assert (bar_of_first.get_linestyle()[0][1] is None) == ("dotted" not in headline)
    (segment,) = bar_of_first.get_segments()
    assert (segment[1, 1] - segment[0, 1]) / 2 == pytest.approx(bar, abs=1e-3)


def test_what_makes_trainings_hard_to_compare_is_told():
    """Other numbers of updates, losses that still fall, and options that nobody has tuned."""
    entries = (Entry("a", {}, budget=1), Entry("b", {}, budget=1))
    ended = Training(1, [10, 20], [5.0, 5.5], [1.0, 2.0], seconds=[30.0, 60.0])
    faster = Training(1, [10, 26], [5.0, 4.8], [2.0, 1.0], seconds=[30.0, 60.0])
    plan = Plan(Recipe("data", {}, {}, tune={"lr": [1, 2]}), entries)
    assert [*find_reservations(Results(plan, {"a": {1: ended}, "b": {1: ended}}))] == []
    results = Results(replace(plan, recipe=Recipe("data", {}, {})), {"a": {1: ended}})
    results.trainings["b"] = {1: faster}
    updates, improving, untuned = find_reservations(results)
    assert (
        "not equal updates: 20 to 26 in 0:01:00 to 0:01:00." in updates
        and ": b. Longer" in improving
    )
    assert "--tune" in untuned


def test_unequal_effort_is_not_compared():
    """If times differ by more than a quarter; a note is enough if both miss a budget by as much.

    Seeds of one architecture have made the same effort, however fast the machine was.
    """
    plan = Plan(Recipe("data", {}, {}), (Entry("a", {}, budget=1), Entry("b", {}, budget=1)))
    outcomes = {name: {1: scored(70.0, "perplexity", 0.0)} for name in "ab"}
    results = Results(plan, outcomes={("test", BEST): outcomes})
    for *a, b, unequal in (
        *((60, 75, False), (60, 76, True), (90, 90, False), (20, 23, False)),
        (40, 80, 70, False),
    ):
        for name, times in (("a", a), ("b", [b])):
            runs = (Training(1, [9], [5.0], seconds=[float(seconds)]) for seconds in times)
            results.trainings[name] = dict(enumerate(runs))
        warning = compare_scores(results, "test", outcomes).warning
        assert ("took 0:01:00 to 0:01:16; compare again" in warning) == unequal
        missed = [note for note in find_reservations(results) if "instead of 0:01:00" in note]
        changes = {76: "took 13% longer than", 90: "took 50% longer than", 23: "took 64% less than"}
        assert [changes[b] in note for note in missed] == [True] * (b in changes)
        (section,) = draw_quality(results, "test")
        assert ("Unequal effort" in section.figure[1].axes[0].get_title()) == unequal
    results.unfinished = {"b": ["seed 1: half"]}
    assert not [*find_obstacles(results, outcomes)]


def test_a_loss_is_of_the_checkpoint_that_is_scored():
    """The best by the metric, which need not have the smallest loss."""
    recipe = Recipe("data", {"best-checkpoint-metric": "accuracy"}, {})
    recipe.train["maximize-best-checkpoint-metric"] = True
    training = Training(1, [1, 2, 3], [0.7, 1.0, 1.1], [81.0, 84.0, 82.0])
    assert training.losses[training.find_best(recipe.best)] == 1.0
    training.metrics = []
    assert training.losses[training.find_best(recipe.best)] == 0.7


def test_scores_are_those_of_sacrebleu_on_detokenised_text(tmp_path):
    detokenised = [text.replace(" ,", ",").replace(" .", ".") for text in WORSE]
    detokenised = [text.replace(" &apos;", "'") for text in detokenised]
    references = [list(map(str.lower, REFERENCES))]
    bleu, chrf = (score(detokenised, references).score for score in (corpus_bleu, corpus_chrf))
    found = translations(tmp_path / "worse", WORSE)
    assert found.scores == pytest.approx({"BLEU": bleu, "chrF": chrf})
    perfect = translations(tmp_path / "perfect", PERFECT)
    assert perfect.scores == pytest.approx({"BLEU": 100, "chrF": 100})
    assert "case:lc" in found.signatures["BLEU"] and "tok:13a" in found.signatures["BLEU"]
    assert found.p_value(perfect) == pytest.approx(0.001, abs=1e-3)


def test_chance_is_not_significant(tmp_path):
    """Two systems that make the same errors in different sentences, or in the same."""
    one = translations(tmp_path / "one", WORSE[:4] + PERFECT[4:])
    other = translations(tmp_path / "other", PERFECT[:4] + WORSE[4:8] + PERFECT[8:])
    assert one.p_value(other) > 0.3
    assert one.p_value(one) == 1
    error = one.error()
    assert error == pytest.approx(other.error(), rel=0.3) and "bs:" not in one.signatures["BLEU"]


def test_translations_of_other_sentences_are_refused(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path}/out has 99 translations, .* 100 references"):
        translations(tmp_path / "out", PERFECT[1:])


def test_classes(tmp_path):
    """Seven of ten right, of one class: F1 of 2 * 7 / 17, and 0 of the class that is not there."""
    rows = [f"{n}\ta\t{'a' if n < 7 else 'b'}\t0.5\t0.5\n" for n in range(10)]
    path = tmp_path / "test.tsv"
    path.write_text("id\ttarget\tprediction\tp(a)\tp(b)\n" + "".join(rows))
    found = Classes(path)
    assert found.scores == pytest.approx({"accuracy": 70, "macro-F1": 100 * 14 / 17})
    assert found.p_value(found) == 1
    assert found.error() == pytest.approx(196 * (0.7 * 0.3 / 10) ** 0.5)


@pytest.mark.parametrize(
    "row",
    [
        *("0\t\ta\t0.5\t0.5", "0\ta\t\t0.5\t0.5", "0\ta", "0\ta\ta\t"),
        *("0\tc\ta\t0.5\t0.5", "0\ta\tc\t0.5\t0.5", "0\ta\ta\t0.5\t0.5\t1", ""),
    ],
)
def test_what_is_no_prediction_is_no_result(tmp_path, row):
    """A row without a class or a probability, of a class that is no column, too long, or none."""
    path = tmp_path / "test.tsv"
    path.write_text(f"id\ttarget\tprediction\tp(a)\tp(b)\n{row}\n")
    place = "line 2 is not the prediction" if row else "has no predictions"
    with pytest.raises(ValueError, match=f"{path},? {place}.*; remove"):
        Classes(path)


EVALUATED = "INFO:fairseq_cli.eval_lm:Evaluated {} tokens in 0.1s\nLoss: 3, Perplexity: {}\n"


@pytest.mark.parametrize("better, p", [(0, 1), (1, 1), (3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_classes_are_compared_by_mcnemars_exact_test(tmp_path, better, p):
    """One of two models is right on some texts more, of ten, and on no text less: 2 * 0.5**n."""
    right, wrong = "{}\ta\ta\t0.9\t0.1\n", "{}\ta\tb\t0.1\t0.9\n"
    for name, hits in (("one", 4), ("other", 4 + better)):
        rows = "".join((right if n < hits else wrong).format(n) for n in range(10))
        (tmp_path / name).write_text(f"id\ttarget\tprediction\tp(a)\tp(b)\n{rows}")
    one, other = Classes(tmp_path / "one"), Classes(tmp_path / "other")
    assert other.p_value(one) == one.p_value(other) == pytest.approx(p)


def test_a_perplexity_of_no_token_is_none(tmp_path):
    """fairseq-eval-lm prints 1.00 if all texts are longer than it is told to take."""
    path = tmp_path / "checkpoint_best.test.out"
    path.write_text(EVALUATED.format(120, 8.25))
    assert Perplexity(path).scores == {"perplexity": 8.25}
    path.write_text(EVALUATED.format(0, 1.0))
    with pytest.raises(ValueError, match=f"{path} has no perplexity; remove it"):
        Perplexity(path)


@pytest.fixture
def report(tmp_path):
    """Writes what runs have printed, by their names and seeds, and returns the report on them."""

    def make(names, outputs, **options):
        given = {"arch": "transformer", "adam-betas": "(0.9, 0.98)"}
        entries = tuple(Entry(name, given, parameters=1234) for name in names)
        seeds = sorted({seed for _, seed in outputs})
        recipe = Recipe("absent", architectures={}, seeds=seeds, **options)
        save_plan(Plan(recipe, entries, test_sets={"test": None}), tmp_path)
        for (name, seed), text in outputs.items():
            folder = tmp_path / f"{name}-seed{seed}"
            folder.mkdir()
            write_log(folder / "train.log", (10, 5.0, 7), (20, 4.0, 9), (30, 4.5, 9))
            (folder / "trained").touch()
            (folder / "checkpoint_best.test.out").write_text(text)
            (folder / "checkpoint_best.test.score").write_text("tokenized: BLEU = 27.55\n")
        write_report(read_results(tmp_path), tmp_path)
        lines = (tmp_path / "report.md").read_text().splitlines()
        return [line.strip("| ").split(" | ") for line in lines]

    return make


def test_a_report_of_translations(tmp_path, report, monkeypatch):
    """A row for each architecture in the order of the plan, its scores, and the recipe's metric."""
    monkeypatch.setattr(outcomes, "SAMPLES", 10)
    texts = {("bad", 1): [*WORSE[:-1], "nothing"], ("good", 2): PERFECT, ("bad", 2): WORSE}
    texts |= {("good", 3): WORSE, ("bad", 3): WORSE}
    for path, text in texts.items():
        translations(tmp_path / "out", text, ())
        texts[path] = (tmp_path / "out").read_text()
    train = {"target-lang": "en", "best-checkpoint-metric": "mcc"}
    train["maximize-best-checkpoint-metric"] = True
    score = {"test": "odeformers score-wmt14 en-de {output}"}
    rows = report(["good", "bad"], texts, train=train, score=score, evaluate={"beam": 5})
    assert ["good, seed 2", "tokenized: BLEU = 27.55"] in rows
    header, _, good, *_ = (row for row in rows if len(row) > 5)
    assert good[3:5] == ["30", "0:00:25"] and good[7:9] == ["4.000 ± 0.000", "4.500 ± 0.000"]
    assert header[5] == "time, seed by seed" and good[5] == "0:00:25, 0:00:25"
    assert header[-1] == "validation mcc" and good[-1] == "6.000 ± 0.000"
    place = next(n for n, row in enumerate(rows) if "BLEU" in row)
    header, _, good, bad = rows[place : place + 4]
    assert [row[:2] for row in (good, bad)] == [["good", "2"], ["bad", "3"]]
    difference = float(bad[header.index("BLEU")].split()[0]) - float(good[2].split()[0])
    assert float(bad[header.index("BLEU against good")]) == pytest.approx(difference, abs=0.1)
    assert "Of differences, positive is better." in {row[0].strip() for row in rows}
    assert not any("Welch" in cell for row in rows for cell in row), "two seeds"
    assert header[-1] == "p against good" and re.fullmatch(r"0\.\d+, 1\.000", bad[-1])
    place = rows.index(["test, text 1"])
    assert ["bad", "nothing"] in rows[place : place + 6], "of the first seeds"
    assert any("--adam-betas '(0.9, 0.98)'" in row[-1] for row in rows)  # for a shell
    assert ["All evaluations: `--beam 5`"] in rows


def test_a_run_or_a_recipe_of_parts_is_told_from_a_comparison(tmp_path):
    save_plan(Plan(Recipe("absent", {}, {}), ()), tmp_path / "part")
    for folder in (tmp_path, tmp_path / "part" / "a-seed1"):
        with pytest.raises(ValueError, match=f"{folder}: no comparison; give {tmp_path}/part$"):
            read_results(folder)


def test_a_run_that_has_not_finished_says_so(tmp_path, report):
    """In a column that others do not have; a budget is beside the time that was spent."""
    outputs = {("one", seed): EVALUATED.format(120, 8) for seed in (1, 2)}
    options = {"train": {"task": "language_modeling"}, "score": {"test": "x"}}
    rows = report(["one"], outputs, **options)
    header = next(row for row in rows if len(row) > 5)
    assert "unfinished" not in header
    (tmp_path / "one-seed2" / "trained").unlink()
    plan = load_plan(tmp_path)
    (entry,) = plan.entries
    write_plan(
        replace(
            plan,
            entries=(replace(entry, updates=90, budget=0.5),),
            environment={"date": "2026-11-25", "threads": "2"},
        ),
        tmp_path,
    )
    write_report(read_results(tmp_path), tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "| architecture | parameters | seeds | unfinished | budget | updates | time |" in text
    assert "| one | 1,234 | 2 | seed 2: 30 of 90 updates | 0:00:30 | 30 | 0:00:25 |" in text
    assert "1 model for language modeling, data `" in text
    assert "Environment: date 2026-11-25, threads 2." in text


@pytest.mark.parametrize(
    "bad, warning",
    [
        (
            ["nothing"] * 100,
            "Too little training to compare: bad (BLEU below 1); train longer, or leave them out.",
        ),
        (WORSE[:99], "Too few texts to compare: 99; test on 100 or more."),
    ],
)
def test_too_little_is_not_compared(bad, warning, tmp_path, report):
    """A line says why, instead of p-values and texts on which the models differ."""
    texts = {("good", 1): PERFECT[: len(bad)], ("bad", 1): bad}
    for path, text in texts.items():
        translations(tmp_path / "out", text, ())
        texts[path] = (tmp_path / "out").read_text()
    rows = report(["good", "bad"], texts, train={"target-lang": "en"}, score={"test": "x"})
    assert [f"**{warning}**"] in rows
    said = {cell for row in rows for cell in row}
    assert "p against good" not in said and "## Where they differ" not in " ".join(said)


@pytest.mark.parametrize("metric, best, worse", [("BLEU", 20.0, 18.9), ("perplexity", 20.0, 21.1)])
def test_averages_that_are_clearly_worse_are_named(metric, best, worse):
    """By more than 5%, as a score that is better the higher, or the lower."""

    def outcomes(*scores):
        return {name: {1: scored(score, metric)} for name, score in zip("ab", scores)}

    averaged = outcomes(worse, (best + worse) / 2)
    (warning,) = find_worse_averages(outcomes(best, best), averaged)
    assert warning.endswith("too much of the training: a.")
    assert not [*find_worse_averages(averaged, outcomes(best, best))]


def test_less_than_an_epoch_is_too_little(tmp_path):
    one, two = (Entry(name, {}, epoch_updates=20) for name in ("one", "two"))
    results = Results(Plan(Recipe("data", {}, {}), (one, two)))
    results.trainings["one"][1] = Training(updates=[10, 19])
    results.trainings["two"][1] = Training(updates=[10, 20])
    outcomes = {name: {1: translations(tmp_path / name, PERFECT)} for name in ("one", "two")}
    assert [*find_undertrained(results, outcomes)] == [("one", "one (less than an epoch)")]


@pytest.mark.parametrize(
    "updates, losses, told",
    [
        ([50, 100], [5.0, 4.69], True),  # 4.845 at 75, and 3% of 5 is 0.15
        ([50, 100], [5.0, 4.71], False),
        ([75, *range(76, 101)], [5.0 - 0.01 * n for n in range(26)], True),  # however often
        ([25, 75, 100], [1.0, 0.05, 0.03], False),  # near zero
        ([50, 90, 100], [5.0, 4.0, 4.1], False),
        ([100], [5.0], False),
    ],
)
def test_a_loss_that_falls_far_at_the_end_is_too_little_training(updates, losses, told):
    """By 3% of the first one in the last quarter of the updates, if the last one is the best."""
    results = Results(Plan(Recipe("data", {}, {}), (Entry("one", {}),)))
    results.trainings["one"][1] = Training(updates=updates, losses=losses)
    found = [reason for _, reason in find_undertrained(results, {})]
    assert found == ["one (loss fell by more than 3% in the last quarter of updates)"] * told


@pytest.mark.parametrize(
    "right, losses, told",
    [
        (72, [3.0, 2.99], True),  # 95% interval from 63
        (72, [2.0, 3.0], False),
        (72, [2.0], False),
        (82, [3.0, 2.99], False),
    ],
)
def test_a_classifier_near_the_majority_may_have_learned_too_little(right, losses, told, tmp_path):
    """Only if its last validation is the best; 70 of 100 texts are of class a."""
    rows = [("a", "a")] * 70 + [("b", "b")] * (right - 70) + [("b", "a")] * (100 - right)
    row = "{}\t{}\t{}\t0.5\t0.5\n"
    table = "".join(row.format(n, *pair) for n, pair in enumerate(rows))
    (tmp_path / "one").write_text("id\ttarget\tprediction\tp(a)\tp(b)\n" + table)
    results = Results(Plan(Recipe("data", {}, {}), (Entry("one", {}),)))
    results.trainings["one"][1] = Training(updates=[9] * len(losses), losses=losses)
    found = find_undertrained(results, {"one": {1: Classes(tmp_path / "one")}})
    expected = ["one (it was still improving, and is hardly better than always a)"]
    assert [reason for _, reason in found] == (expected if told else [])


def test_a_classifier_of_one_class_is_measured_by_the_majority(tmp_path, report):
    """Seven of ten texts are of class a: F1 of 14 / 17 and of 0."""
    header, row = "id\ttarget\tprediction\tp(a)\tp(b)\n", "{}\t{}\t{}\t0.5\t0.5\n"
    targets = "aaaaaaabbb" * 10
    predictions = {"right": targets, "wrong": "a" * 100}
    results = Results(Plan(Recipe("data", {}, {}), (Entry("right", {}), Entry("wrong", {}))))
    outcomes = {}
    for name, classes in predictions.items():
        rows = "".join(row.format(n, *pair) for n, pair in enumerate(zip(targets, classes)))
        (tmp_path / name).write_text(header + rows)
        outcomes[name] = {1: Classes(tmp_path / name)}
    section = compare_scores(results, "test", outcomes)
    f1 = f"{100 * 7 / 17:.1f}"
    assert section.table[-1][:4] == ["always a", "", "70.0", f1]
    assert section.table[-2][:4] == ["wrong", "1", "70.0", f1]
    assert section.warning.endswith(
        "compare: wrong (it predicts one class); train longer, or leave them out."
    )
    assert section.markdown().index("Too little") < section.markdown().index("always a")
    (confusion,) = tabulate_confusion("test", outcomes)
    assert confusion.table[1:] == [
        *(["right", "a", "70", "100", "0"], ["right", "b", "30", "0", "100"]),
        *(["wrong", "a", "70", "100", "0"], ["wrong", "b", "30", "100", "0"]),
    ]


@pytest.mark.parametrize(
    "metric, texts, decimals",
    [
        *(("accuracy", 64, 1), ("macro_f1", 0, 1), ("BLEU", 9_999, 1), ("BLEU", 10_000, 2)),
        *(("perplexity", 64, 2), ("loss", 0, 3), ("mcc", 0, 3)),
    ],
)
def test_few_texts_have_few_decimals(metric, texts, decimals):
    assert outcomes.count_decimals(metric, texts) == decimals


@pytest.mark.parametrize(
    "metric, scores, told",
    [
        *(("BLEU", [99.1, 80.0], True), ("BLEU", [98.9, 80.0], False), ("BLEU", [99.1], False)),
        ("perplexity", [130.0, 99.5], False),
    ],
)
def test_scores_near_100_say_little(metric, scores, told):
    outcomes = {str(number): {1: scored(score, metric)} for number, score in enumerate(scores)}
    assert any("harder data" in note for note in find_ceiling(outcomes)) == told


@pytest.mark.parametrize(
    "main, ours, told",
    [
        ("accuracy", [84.0, 86.0, 88.0], r"\+5\.0 \(\+\d\.\d to \+\d\.\d\)"),
        ("perplexity", [84.0, 86.0, 88.0], r"-5\.00 \(-\d\.\d\d to -\d\.\d\d\)"),
        ("accuracy", [84.0, 84.0, 84.0], r"\+3\.0"),
        ("accuracy", [80.99], r"\+0\.0"),
    ],
)
def test_differences_are_positive_if_better_and_have_an_interval(main, ours, told):
    """Of three seeds on both sides that are not all equal."""
    runs = (
        dict(enumerate(scored(score, main) for score in of)) for of in (ours, [80.0, 81.0, 82.0])
    )
    assert re.fullmatch(told, str(compare_seeds(*runs)))


@pytest.mark.parametrize("ours, told", [([60.0, 61.0, 62.0], True), ([68.0, 71.0, 75.0], False)])
def test_intervals_of_seeds_beside_p_values_of_texts_are_explained(ours, told):
    """Where seeds agree on a difference that so few texts do not show."""
    outcomes = {"a": {}, "b": {}}
    for name, scores in zip("ab", ([70.0, 71.0, 72.0], ours)):
        for seed, score in enumerate(scores):
            outcomes[name][seed] = scored(score)
            outcomes[name][seed].test, outcomes[name][seed].p_value = "a test", lambda _: 0.2
    plan = Plan(Recipe("data", {}, {}), tuple(Entry(name, {}) for name in "ab"))
    text = compare_scores(Results(plan), "test", outcomes).text
    assert ("b: other seeds would probably agree, other texts may not" in text) == told
    tested = "p-values test the difference in accuracy for each seed (a test).  \n"
    assert f"{tested}They are corrected by Holm's method for 3 comparisons." in text


@pytest.mark.parametrize("early, told", [("b", ["", "", "0.200"]), ("a", None), ("", None)])
def test_a_model_with_too_little_training_withholds_its_own_p_values(early, told):
    """All if it is the baseline; elsewhere other pairs have differences and p-values."""
    outcomes = {name: {1: scored(score)} for name, score in zip("abc", (70.0, 20.0, 71.0))}
    for name, runs in outcomes.items():
        runs[1].test, runs[1].p_value = "a test", lambda _: 0.2
        runs[1].undertrained = lambda _, early=name == early: "too early" * early
    plan = Plan(Recipe("data", {}, {}), tuple(Entry(name, {}) for name in "abc"))
    section = compare_scores(Results(plan), "test", outcomes)
    assert ("compare: b (too early); train" in section.warning) == (early == "b")
    cells = [dict(zip(section.table[0], row)).get("p against a") for row in section.table[1:]]
    assert cells == (told or ([None] * 3 if early else ["", "0.400", "0.400"]))


def test_several_comparisons_are_corrected():
    """Holm's example: factors of 4 to 1 in the order of the p-values, which stay in that order."""
    assert correct_by_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert correct_by_holm([0.9, 0.8]) == [1, 1] and correct_by_holm([0.2]) == [0.2]


def test_texts_on_which_models_differ_have_different_outputs(tmp_path):
    """Not those of one class, however far its probabilities are apart.

    The report shows them as they are. CSV and LaTeX, which would show Markdown, leave them out.
    """
    texts, runs = ["sure", "<unk> | *", "hard"], {}
    for name, prediction, first, second in (("one", "pos", 0.9, 0.6), ("two", "neg", 0.5, 0.4)):
        rows = [("pos", "pos", first), ("pos", prediction, second), ("neg", "pos", 0.6)]
        rows = [f"{n}\t{t}\t{p}\t{share}\t{1 - share}\n" for n, (t, p, share) in enumerate(rows)]
        (tmp_path / name).write_text(f"id\ttarget\tprediction\tp(pos)\tp(neg)\n{''.join(rows)}")
        runs[name] = {1: Classes(tmp_path / name, texts)}
    results = Results(Plan(Recipe("data", {}, {}), ()), outcomes={("test", BEST): runs})
    (section,) = show_differences(results, "test")
    assert section.title.endswith("most: test, best checkpoint, first seed")
    _, _, source, *others = section.text.splitlines()
    assert source == r"| source | &lt;unk> \| \* |" and "| two | neg |" in others
    assert "<td>&lt;unk&gt; | *</td>" in html_page([section]) and not section.table
    runs["two"] = runs["one"]
    (section,) = show_differences(results, "test")
    assert section.text.startswith("Nowhere")


def test_an_interval_is_below_its_mean_in_html():
    """So a table of all columns is as narrow as a page of 1,100 pixels; text stays in one line."""
    rows = [["loss", "text of_all"], ["0.7 ± 0.1 (-0.6 to +0.8)", "a (b)"]]
    section = Section("Trainings", table=rows)
    page = html_page([section])
    assert '<td class="number">0.7 ± 0.1<br>(-0.6 to +0.8)</td>' in page and "<td>a (b)<" in page
    assert "<th>text of_<wbr>all</th>" in page, "names may break"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Data whose references are in upper and lower case, which the translations lack.

    Returns their recipe, with a relative path, and writes runs whose translations are right but for
    their case.
    """
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data" / "data-bin"
    (data.parent / "plain").mkdir(parents=True)
    (data.parent / "plain" / "test.en").write_text("".join(f"{text}.\n" for text in REFERENCES))
    data.mkdir()
    (data / "test.de-en.en.idx").touch()
    run = tmp_path / "runs" / "a-seed1"
    run.mkdir(parents=True)
    translations(run / "checkpoint_best.test.out", WORSE, ())
    write_log(run / "train.log", (10, 5.0, 7))
    return Recipe("data/data-bin", {"source-lang": "de", "target-lang": "en"}, {"a": {}})


def reported(out):
    """The lines of a report, and the first score."""
    write_report(read_results(out), out)
    lines = (out / "report.md").read_text().splitlines()
    header = next(n for n, line in enumerate(lines) if "| BLEU |" in line)
    return lines, lines[header + 2].split(" | ")[2]


def test_a_report_is_the_same_from_every_folder(published, tmp_path, monkeypatch):
    """Texts that have gone are named, and the references in the outputs take their place."""
    out, texts = tmp_path / "runs", tmp_path / "data" / "plain" / "test.en"
    recipe = replace(published, data=str(tmp_path / published.data))
    test_sets = find_test_sets(recipe)
    assert test_sets == {"test": str(texts)}
    save_plan(Plan(recipe, (Entry("a", {}),), test_sets=test_sets), out)
    lines, score = reported(out)
    monkeypatch.chdir("/")
    assert reported(out) == (lines, score)
    (tmp_path / "data").rename(tmp_path / "moved")
    without, other = reported(out)
    (warning,) = (line for line in without if "Warning" in line)
    assert str(texts) in warning and "BLEU and chrF may differ" in warning
    expected = translations(tmp_path / "out", WORSE, ()).scores["BLEU"]
    assert float(other) == pytest.approx(expected, abs=0.05) and other != score


def test_a_comparison_of_an_earlier_version_is_reported(published, tmp_path, monkeypatch):
    """Its plan has a path as it was typed, and no test sets; from elsewhere, the loss is named."""
    out = tmp_path / "runs"
    plan = asdict(Plan(published, (Entry("a", {}),)))
    del plan["test_sets"]
    (out / "plan.yaml").write_text(yaml.safe_dump({**plan, "entries": list(plan["entries"])}))
    lines, score = reported(out)
    assert not any("Warning" in line for line in lines)
    monkeypatch.chdir("/")
    without, other = reported(out)
    assert any("Warning: `/data/plain/test.en`" in line for line in without) and other != score
    monkeypatch.chdir(tmp_path)
    test_sets = find_test_sets(published)
    save_plan(Plan(load_plan(out).recipe, (Entry("a", {}),), test_sets=test_sets), out)
    assert reported(out) == (lines, score), "its next command completes the plan"


def test_a_report_of_language_models(report):
    perplexities = {("one", seed): EVALUATED.format(120, n) for seed, n in ((0, 8.25), (12, 8.75))}
    rows = report(["one"], perplexities, train={"task": "language_modeling"}, score={"test": "x"})
    assert ["one", "2", "8.50 ± 0.35", "8.25, 8.75"] in rows
    assert not any("p against" in cell for row in rows for cell in row)


def test_each_model_has_a_colour_of_its_own():
    """That of its architecture, unless one before it has that."""
    names = ["transformer", "transformer-dropout-0.1", "transject", "mine"]
    colors = [look["color"] for look in distinct(names)]
    assert len(set(colors)) == len(names)
    assert colors[0] == ARCHITECTURES["transformer"] and colors[2] == ARCHITECTURES["transject"]


@pytest.mark.parametrize("language", ["zh", "zh-CN", "zh.hans", "ja", "th", "ko", "en"])
def test_a_perfect_translation_without_spaces_has_a_bleu_of_100(tmp_path, language):
    """And the signature names the tokenizer; a half of it right is no longer 0."""
    text = "the cat sits on the mat ." if language == "en" else "今天天气很好我们去公园散步吧"
    path = tmp_path / "test.txt"
    path.write_text(f"S-0\tein satz\nT-0\t{text}\nH-0\t-0.1\t{text}\n", encoding="utf-8")
    translations = Translations(path, language, [text])
    assert translations.scores["BLEU"] == pytest.approx(100)
    tokenizer = "13a" if language == "en" else "zh" if language.startswith("zh") else "char|mecab"
    assert re.search(f"tok:[a-z-]*({tokenizer})", translations.signatures["BLEU"])
    other = Translations(path, language, [text[: len(text) // 2] + "x"])
    assert other.scores["BLEU"] > 0 or language == "en"


def test_a_tokenizer_may_be_chosen(tmp_path):
    path = tmp_path / "test.txt"
    path.write_text("S-0\ta\nT-0\tb c d e\nH-0\t-0.1\tb c d e\n", encoding="utf-8")
    translations = Translations(path, "en", ["b c d e"], tokenize="char")
    translations.scores  # noqa: B018
    assert "tok:char" in translations.signatures["BLEU"]


@pytest.mark.parametrize("words, enough", [(2, False), (9, True)])
def test_repeated_phrases_are_too_little_to_compare(tmp_path, words, enough):
    """Whatever their BLEU: with fewer than a tenth of the references' words."""
    rows = [" ".join(f"w{30 * n + i}" for i in range(30)) for n in range(2)]  # 60 words
    outputs = [" ".join(f"w{i % words}" for i in range(30)) for _ in rows]
    path = tmp_path / "out"
    lines = [f"T-{n}\t{row}\nH-{n}\t-1\t{out}\n" for n, (row, out) in enumerate(zip(rows, outputs))]
    path.write_text("".join(lines))
    translations = Translations(path, "en")
    translations.scores = {"BLEU": 3.0}
    assert (translations.undertrained(improving=False) == "") == enough
    assert (
        enough
        or translations.undertrained(improving=False) == "2 different words, the references have 60"
    )
