"""The command ``odeformers report``: the content and form of its page."""

import json
import re
import shutil
from dataclasses import replace
from statistics import stdev
from threading import Thread

import numpy as np
import pytest

from odeformers.__main__ import main
from odeformers.compare.report.pages import Section, to_html, to_markdown, to_page
from odeformers.compare.report.sections import PAGE, make_sections
from odeformers.compare.results.curves import Likelihoods
from odeformers.compare.results.intervals import minimal_detectable
from odeformers.compare.results.rows import (
    RESULTS,
    TUNING_SEED,
    collect_rows,
    lock,
    read_comparison,
)
from tests.odeformers.compare.comparisons import (
    LANGUAGE_MODEL,
    write_comparison,
    write_run,
)

CLASSES = ["x", "y", "x"] * 40


def report(out, baseline=""):
    """The lines of a report; its pictures are not looked at."""
    return to_page([*make_sections(read_comparison(out, baseline))]).splitlines()


def cells(lines, start):
    """The cells of a row of a table, by the names of its columns."""
    place = next(n for n, line in enumerate(lines) if line.startswith(f"| {start} |"))
    header = place
    while lines[header - 1].startswith("|"):
        header -= 1
    names, row = ([c.strip() for c in lines[n].strip("|").split(" | ")] for n in (header, place))
    return dict(zip(names, row))


def part(lines, heading):
    """The lines of a part of the report."""
    begin = lines.index(f"## {heading}")
    ends = (n for n in range(begin + 1, len(lines)) if lines[n].startswith("## "))
    return lines[begin : next(ends, len(lines))]


def test_each_architecture_has_a_row_of_trainings(tmp_path):
    """The baseline comes first, and missing parts of trainings have a column."""
    more = {"validated": "mcc", "maximized": True, "validation": 0.5}
    runs = [
        write_run(tmp_path, "b", 1, budget=0.5, state="not evaluated", **more),
        write_run(tmp_path, "b", 2, budget=0.5, state="1 of 9 updates", **more),
        *(write_run(tmp_path, "a", s, cpu_seconds=10.0 * s, validation=s / 10) for s in (1, 2)),
    ]
    lines = report(write_comparison(tmp_path, *runs))
    rows = part(lines, "Training runs")
    a, b = cells(rows, "a"), cells(rows, "b")
    assert a["parameters"] == "1,234" and (a["seeds"], a["updates"]) == ("2", "30")
    assert (a["wall-clock time"], a["CPU time"]) == ("0:00:06", "0:00:15")
    assert a["validation loss (bits per example)"] == "2.000 ± 0.000", "of the scored checkpoint"
    assert a["training loss, last full epoch"] == "2.000 ± 0.000"
    assert b["unfinished"] == "seed 1: not evaluated; seed 2: 1 of 9 updates"
    assert (b["seeds"], b["budget"]) == ("1", "0:00:30")
    assert b["validation mcc"] == "0.500"
    assert [line[:4] for line in rows if line[:1] == "|"][2:] == ["| a ", "| b "]


def test_all_costs_are_of_one_clock(tmp_path):
    """Costs are CPU times, unless a training lacks them, as on a GPU."""
    spent = {"score": 70.0, "seconds": 8.0, "cpu_seconds": 6.0, "tokens": 48.0}
    alone, mixed = tmp_path / "alone", tmp_path / "mixed"
    write_comparison(alone, write_run(alone, "a", **spent))
    on_gpu = write_run(mixed, "b", **{**spent, "cpu_seconds": None})
    write_comparison(mixed, write_run(mixed, "a", **spent), on_gpu)
    a = cells(report(alone), "a")
    assert (a["CPU time"], a["wall-clock time"]) == ("0:00:06", "0:00:08")
    assert a["tokens per CPU second"] == "8"
    for name in "ab":
        row = cells(report(mixed), name)
        assert (row["time"], row["tokens per second"]) == ("0:00:08", "6")
        assert "wall-clock time" not in row
    (table,) = read_comparison(mixed).tables
    assert [runs[0].cost for runs in table.main.values()] == [8.0, 8.0]
    assert table.first.learning.seconds == pytest.approx([8 / 3, 16 / 3, 8])


def test_scores_and_differences_share_a_table(tmp_path):
    """The paper's or cited figures follow, and the last row is always the most frequent class."""
    wrong = ["y", *CLASSES[1:]]
    runs = [
        write_run(tmp_path, "a", outputs=CLASSES, references=CLASSES, paper='{"accuracy": 88.8}'),
        write_run(
            tmp_path, "b", outputs=wrong, references=CLASSES, cited='{"accuracy": "81.3 (Tay)"}'
        ),
    ]
    lines = part(report(write_comparison(tmp_path, *runs)), "test, best checkpoint")
    a, b, always = (cells(lines, name) for name in ("a", "b", "always x"))
    assert (a["accuracy"], b["accuracy"], always["accuracy"]) == ("100.0", "99.2", "66.7")
    assert (b["accuracy against a"], b["p over texts"]) == ("-0.8", "1.000")
    assert (a["± over texts"], b["± over texts"]) == ("1.6", "2.2"), "each has its own"
    assert a["paper: accuracy"] == "88.8" and a["accuracy against a"] == ""
    assert b["cited: accuracy"] == "81.3 (Tay)" and b["paper: accuracy"] == ""


def test_a_seed_that_the_baseline_lacks_has_no_p_value(tmp_path):
    """The other seeds are named then."""
    runs = [
        write_run(tmp_path, name, seed, outputs=CLASSES, references=CLASSES)
        for name, seeds in (("a", (1, 3)), ("b", (1, 2, 3)), ("c", (1, 3)))
        for seed in seeds
    ]
    lines = part(report(write_comparison(tmp_path, *runs)), "test, best checkpoint")
    assert cells(lines, "b")["p over texts"] == "seed 1: 1.000, seed 3: 1.000"
    assert cells(lines, "c")["p over texts"] == "1.000, 1.000"


def test_the_larger_p_value_limits_a_claim(tmp_path):
    """The page names seeds or texts, whichever limits it, with the model."""
    outputs = {"a": CLASSES, "b": CLASSES, "c": ["y"] * 20 + CLASSES[20:]}
    scores = {"a": (70.0, 70.5, 71.0), "b": (80.0, 80.5, 81.0), "c": (71.0, 70.2, 70.3)}
    runs = [
        write_run(tmp_path, name, seed, score, outputs[name], CLASSES)
        for name, of_seeds in scores.items()
        for seed, score in enumerate(of_seeds)
    ]
    page = "\n".join(report(write_comparison(tmp_path, *runs)))
    assert "To strengthen a claim, add more seeds (c) or more test texts (b): " in page


def test_small_p_values_are_not_shown_as_zero(tmp_path):
    outputs = {"a": ["y"] * 24 + CLASSES[24:], "b": CLASSES}
    scores = {"a": (70.0, 70.5, 71.0), "b": (90.0, 90.5, 91.0)}
    runs = [
        write_run(tmp_path, name, seed, score, outputs[name], CLASSES)
        for name, of_seeds in scores.items()
        for seed, score in enumerate(of_seeds)
    ]
    row = cells(part(report(write_comparison(tmp_path, *runs)), "test, best checkpoint"), "b")
    assert (row["p over seeds"], row["p over texts"]) == ("<0.001", "<0.001, <0.001, <0.001")


def test_few_blocks_of_a_text_are_noted(tmp_path):
    tokens = np.full(29, 500)
    runs = [
        write_run(tmp_path, n, likelihoods=Likelihoods(tokens, tokens * x), **LANGUAGE_MODEL)
        for n, x in (("a", 5.0), ("b", 5.1))
    ]
    page = "\n".join(report(write_comparison(tmp_path, *runs)))
    assert "The texts form 29 blocks of 500 tokens." in page
    assert "interval of a score over the 29 blocks of 500 tokens." in page
    assert "p over texts is the p-value of a paired bootstrap over the blocks" in page


def test_perplexities_without_likelihoods_have_no_p_values(tmp_path):
    runs = (write_run(tmp_path, n, score=s, **LANGUAGE_MODEL) for n, s in (("a", 8.25), ("b", 7)))
    lines = part(report(write_comparison(tmp_path, *runs)), "test, best checkpoint")
    assert cells(lines, "b")["perplexity against a"] == "+1.25"
    assert not any("p over texts" in line for line in lines)


def test_a_ruled_out_comparison_has_no_tests(tmp_path):
    """Averaged checkpoints have none either, and the verdict before all tables states it once."""
    runs = [write_run(tmp_path, name, outputs=CLASSES[:9], references=CLASSES[:9]) for name in "ab"]
    for rows in runs:
        rows.append(replace(rows[-1], checkpoint="average of the last 2 checkpoints"))
    lines = report(write_comparison(tmp_path, *runs))
    verdict = part(lines, "Verdict")
    assert sum("Too few texts" in line for line in lines) == 1
    assert verdict[2].startswith("**Too few texts") and not any("|" in line for line in verdict)
    for checkpoint in ("best checkpoint", "average of the last 2 checkpoints"):
        start = verdict.index(f"Accuracy on test at the {checkpoint}, compared with a (margin 1):")
        assert verdict[start + 2] == "- b: inconclusive. There are too few texts."
    assert lines.index("## Verdict") < next(n for n, line in enumerate(lines) if line[:1] == "|")
    assert not any("against a |" in line for line in lines)


def test_the_verdict_combines_intervals_and_notes(tmp_path):
    """A note makes a verdict inconclusive, and names its table if there are several.

    Remarks are beside their tables.
    """
    scores = {"a": (70.0, 70.5, 71.0), "b": (72.0, 72.5, 73.1), "c": (69.5, 70.4, 72.3)}
    scores["d"] = (60.0, 60.5, 60.8)
    empty = ["", *CLASSES[1:]]
    runs = [
        write_run(tmp_path, name, seed, score, CLASSES, empty)
        for name, of_seeds in scores.items()
        for seed, score in enumerate(of_seeds)
    ]
    for rows in (rows for rows in runs if rows[0].seed == 0):
        rows.append(replace(rows[-1], split="other"))
    lines = report(write_comparison(tmp_path, *runs))
    verdict = "\n".join(part(lines, "Verdict"))
    on_test = "Accuracy on test at the best checkpoint, compared with a (margin 1):\n\n"
    assert f"{on_test}- b: inconclusive, +2.0 (" in verdict
    untuned = "over these seeds, but options were not tuned"
    assert f"). Better {untuned} and other texts may not agree.\n- c: inconclusive" in verdict
    assert "- c: inconclusive, +0.2 (" in verdict and "). The interval includes zero.\n" in verdict
    assert re.search(rf"- d: inconclusive, -10.* Worse {untuned}", verdict)
    few = "compared with a (margin 1):\n\n- b: inconclusive, +2.0. There are too few seeds.\n- c"
    assert f"Accuracy on other at the best checkpoint, {few}" in verdict
    assert "\nOn other at the best checkpoint: One seed says nothing" in verdict
    assert "are empty" not in verdict
    assert any("are empty" in line for line in part(lines, "test, best checkpoint"))


@pytest.mark.parametrize(
    "ours, margin, word", [(90.0, None, "better"), (70.1, None, "equivalent"), (70.1, 0.1, "incon")]
)
def test_a_difference_without_notes_is_decided(ours, margin, word, tmp_path):
    runs = [
        write_run(tmp_path, name, seed, score + seed / 5, tuned="activation-fn relu")
        for name, score in {"a": 70.0, "b": ours}.items()
        for seed in (1, 2, 3)
    ]
    page = to_page([*make_sections(read_comparison(write_comparison(tmp_path, *runs)), margin)])
    assert f"compared with a (margin {margin or 1:g}):\n\n- b: {word}" in page


def test_the_margin_is_an_option(tmp_path, capsys):
    """A margin is in points of accuracy, or percent of the baseline's perplexity."""
    for name, more in (("points", {}), ("percent", LANGUAGE_MODEL)):
        out = tmp_path / name
        write_comparison(out, *(write_run(out, n, score=80.0, **more) for n in "ab"))
        main(["report", str(out), "--margin", "0.5"])
    output = capsys.readouterr().out
    for metric, margin in (("Accuracy", 0.5), ("Perplexity", 0.4)):
        assert (
            f"{metric} on test at the best checkpoint, compared with a (margin {margin})" in output
        )
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path / "points"), "--margin", "-1"])
    assert "argument --margin: -1: give 0 or more" in capsys.readouterr().err


def test_models_of_another_spread_are_noted(tmp_path):
    """The note also has the difference that the other models' seeds would find."""
    scores = {"a": (70.0, 70.5, 71.0), "b": (70.2, 70.9, 71.1), "wide": (40.0, 70.0, 90.0)}
    runs = [
        write_run(tmp_path, name, seed, score)
        for name, of_seeds in scores.items()
        for seed, score in enumerate(of_seeds)
    ]
    lines = part(report(write_comparison(tmp_path, *runs)), "test, best checkpoint")
    (remark,) = (line for line in lines if line.startswith("The scores of some models vary"))
    assert "wide (F-test, p = " in remark and "level compares wide with a." in remark
    (remark,) = (line for line in lines if line.startswith("Dunnett's test assumes"))
    spread = (stdev(scores["a"]) ** 2 / 2 + stdev(scores["b"]) ** 2 / 2) ** 0.5
    assert "the scores of 2 models" in remark and f"deviation is about {spread:.2f};" in remark
    least = minimal_detectable(1, 3, level=0.025) * spread
    assert f"detect a difference of {least:.2f} with 80%" in remark


def test_another_baseline_may_be_named(tmp_path, capsys):
    runs = (write_run(tmp_path, n, score=s) for n, s in (("a", 70.0), ("b", 71.0)))
    write_comparison(tmp_path, *runs)
    main(["report", str(tmp_path), "--baseline", "b"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == (tmp_path / "report.md").read_text("utf-8").splitlines()
    rows = part(lines, "test, best checkpoint")
    assert cells(rows, "b")["accuracy against b"] == ""
    assert cells(rows, "a")["accuracy against b"] == "-1.0"


def test_tried_and_chosen_values_are_listed(tmp_path):
    tried = {"1e-3": 2.5, "2e-3": 1.5, "4e-3": 2.0}
    runs = [
        write_run(tmp_path, "a", tuned=f"lr {rate}", validation=loss, score=loss)
        for rate, loss in tried.items()
    ]
    runs.append(write_run(tmp_path, "a", 2, tuned="lr 2e-3", validation=0.5, score=0.5))
    lines = report(write_comparison(tmp_path, *runs))
    rows = [line for line in part(lines, "Tuning") if line.startswith("| a ")]
    assert rows == [
        "| a | 1e-3 | 30 | 2.500 |  |",
        "| a | 2e-3 | 30 | 1.500 | chosen |",
        "| a | 4e-3 | 30 | 2.000 |  |",
    ]
    assert cells(part(lines, "test, best checkpoint"), "a")["seed by seed"] == "1.5, 0.5"


@pytest.mark.parametrize(
    "last, cost",
    [(3600.0, "7 CPU hours"), (None, "6 CPU hours and 0.5 hours of wall-clock time on GPUs")],
)
def test_the_total_cost_counts_all_trainings(last, cost, tmp_path):
    """Candidates and unfinished trainings count as well; the chosen candidate is not rejected."""
    spent = {"cpu_seconds": 3600.0, "seconds": 1800.0}
    tried = [
        write_run(tmp_path, name, TUNING_SEED, tuned=f"lr {rate}", validation=loss, **spent)
        for name in "ab"
        for rate, loss in {"1e-3": 2.5, "2e-3": 1.5}.items()
    ]
    tried.append(write_run(tmp_path, "a", 2, tuned="lr 2e-3", **spent))
    tried.append(write_run(tmp_path, "b", 2, tuned="lr 2e-3", state="1 of 9 updates", **spent))
    tried.append(write_run(tmp_path, "b", 3, tuned="lr 2e-3", **{**spent, "cpu_seconds": last}))
    lines = part(report(write_comparison(tmp_path, *tried)), "Training runs")
    counts = "for 7 training runs, 2 with rejected values and 1 unfinished."
    assert any(f"Total cost: {cost}, without validations, {counts}" in line for line in lines)


def test_the_output_of_a_recipes_score_command_is_shown(tmp_path):
    rows = write_run(tmp_path, "a", score=70.0)
    metric = "odeformers score-wmt14 en-de {output}"
    rows.append(replace(rows[-1], metric=metric, score=None, printed="tokenized: BLEU = 27.55"))
    lines = report(write_comparison(tmp_path, rows))
    assert cells(lines, "a, seed 1")[metric] == "tokenized: BLEU = 27.55"


def test_options_and_defaults_that_differ_are_listed(tmp_path):
    options = {"arch": "transformer", "adam-betas": "(0.9, 0.98)", "fp16": True}
    defaults = {"encoder-normalize-before": True, "dropout": 0.1}
    runs = [
        write_run(tmp_path, "a", options=json.dumps(options), defaults=json.dumps(defaults)),
        write_run(
            tmp_path,
            "b",
            options=json.dumps({**options, "arch": "mine"}),
            defaults=json.dumps({**defaults, "encoder-normalize-before": False}),
            size="encoder-ffn-embed-dim 64 -> 60",
        ),
    ]
    lines = part(report(write_comparison(tmp_path, *runs)), "Options")
    b = cells(lines, "b")
    assert b["its own options"] == "--arch mine" and b["size"].endswith("-> 60")
    assert b["defaults that differ"] == "encoder-normalize-before False"
    assert "`fairseq-train /data --adam-betas '(0.9, 0.98)' --fp16`" in lines[-1], "for a shell"


def test_a_comparison_without_a_finished_run_is_reported(tmp_path):
    """The sizes of started runs are reported."""
    (rows,) = [write_run(tmp_path, "a", state="seed 1 failed")]
    row = replace(rows[0], curve="", validation=None, updates=None, seconds=None, cpu_seconds=None)
    lines = report(write_comparison(tmp_path, [row]))
    assert cells(lines, "a")["seeds"] == "0"


@pytest.mark.parametrize(
    "line, message",
    [
        ("{} --csv tables", "--csv: {}/results.csv contains all figures"),
        ("{} --latex tables", "--latex: {}/results.csv contains all figures"),
        ("{} --redo", "unrecognized arguments: --redo"),
        ("{} {}", "unrecognized arguments: {}"),
        ("{}", "{}: no results.csv with a row; give a folder that was --out"),
    ],
)
def test_folders_without_a_comparison_are_refused(line, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["report", *line.replace("{}", str(tmp_path)).split()])
    assert message.replace("{}", str(tmp_path)) in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_an_html_page_escapes_its_texts():
    """An interval is below its mean, names may break, and only backticks mark code."""
    table = [["loss", "of_all"], ["0.7 ± 0.1 (-0.6 to +0.8)", "<b> | c"]]
    section = Section("Training runs", table=table, lines=["give `--tune <x>` & more"])
    page = to_html([section], {})
    assert '<td class="number">0.7 ± 0.1<br>(-0.6 to +0.8)</td>' in page
    assert "<td>&lt;b&gt; | c</td>" in page and "<th>of_<wbr>all</th>" in page
    assert "give <code>--tune &lt;x&gt;</code> &amp; more" in page
    assert r"| 0.7 ± 0.1 (-0.6 to +0.8) | <b> \| c |" in to_markdown(section)
    assert not re.search(r"https?://", page), "it needs no other file"


def test_a_report_that_waited_has_the_newest_rows(tmp_path):
    """Two commands never mix files, since one begins after the other has ended."""
    runs = [write_run(tmp_path, name, score=70.0) for name in "ab"]
    write_comparison(tmp_path, *runs[:1])
    with lock(tmp_path / PAGE):
        waiting = Thread(target=main, args=[["report", str(tmp_path)]])
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive() and not (tmp_path / "report.md").exists()
        write_comparison(tmp_path, *runs)
    waiting.join()
    for name in ("report.md", "report.html"):
        assert "2 models" in (tmp_path / name).read_text("utf-8")


def test_reports_and_rows_do_not_wait_for_each_other(tmp_path):
    """A report may take minutes, and runs that end meanwhile continue."""
    write_comparison(tmp_path, write_run(tmp_path, "a", score=70.0))
    (tmp_path / "a-seed1/run.yaml").touch()
    shutil.copy(tmp_path / "results.csv", tmp_path / "a-seed1/results.csv")
    with lock(tmp_path / RESULTS):
        main(["report", str(tmp_path)])
    with lock(tmp_path / PAGE):
        collect_rows(tmp_path)


def test_a_copied_folder_is_reported(board, tmp_path, monkeypatch):
    """Without logs and checkpoints, by a relative path, pages and pictures are the same."""
    copy = tmp_path / "copy"
    left_out = shutil.ignore_patterns("report*", "*.log", "*.png", "*.tsv")
    shutil.copytree(board, copy, ignore=left_out)
    monkeypatch.chdir(tmp_path)
    main(["report", "copy"])
    for name in ("report.md", "report.html", "curves.png", "quality-test.png"):
        assert (copy / name).read_bytes() == (board / name).read_bytes(), name
