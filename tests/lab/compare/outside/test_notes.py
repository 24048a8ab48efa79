"""What rules a comparison out, and for whom: its report leaves out differences and p-values."""

import pytest
from lab.compare.outside.commands import cell, compare, line, run, table, tables, write_labelled


def rules_out(page):
    """The sentences in bold above the scores."""
    return " ".join(row for row in page.splitlines() if row.startswith("**"))


def test_too_little_training_is_told_of_its_models_alone(late):
    """One whose loss falls to the end, one that predicts a single class; others are compared."""
    page = (late / "report.md").read_text("utf-8")
    warning = rules_out(page)
    assert "scripted_late" in warning and "scripted_idle" in warning
    assert "scripted_poor" not in warning and "scripted_base" not in warning
    rows = table(page, " against ")
    tested = {name for name, row in rows.items() if row["p against scripted_base"]}
    assert tested == {"scripted_poor"}
    assert not rows["scripted_late"]["accuracy against scripted_base"]
    assert rows["scripted_late"]["accuracy"], "scores stay"


@pytest.fixture(scope="module")
def late(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("late") / "runs"
    archs = ["--archs", *(f"scripted_{name}" for name in ("base", "late", "poor", "idle"))]
    compare(data, out, *archs, "--epochs", 4)
    return out


def test_nothing_is_compared_with_a_baseline_that_learned_too_little(data, tmp_path):
    """Nor on too few texts, or after less than an epoch."""
    few = write_labelled(tmp_path / "few", train=40, valid=40, test=99)
    out = tmp_path / "runs"
    compare(few, out, "--archs", "scripted_base", "scripted_poor", "--max-update", 10)
    page = (out / "report.md").read_text("utf-8")
    warning = rules_out(page)
    assert "99" in warning and "100" in warning
    assert "scripted_base" in warning and "epoch" in warning
    assert not any("against" in name for rows in tables(page) for name in rows[0])
    assert len(table(page, "macro-F1")) == 3


def test_unequal_times_rule_a_comparison_out(data, controls, tmp_path):
    """One budget, but the second model's updates take longer than when they were timed."""
    out = tmp_path / "runs"
    (controls / "slow-poor").touch()
    archs = ["--archs", "scripted_base", "scripted_poor", "--jobs", 1]
    run(*line(data, out, *archs, "--budget", "1s"), SCRIPTED=str(controls))
    page = (out / "report.md").read_text("utf-8")
    warning = rules_out(page)
    assert "budget" in warning
    assert not any("against" in name for rows in tables(page) for name in rows[0])
    rows = table(page, "budget")
    assert cell(rows["scripted_poor"], "budget") == "0:00:01"
    assert int(cell(rows["scripted_base"], "updates").replace(",", "")) > 0


def test_untuned_options_and_rising_scores_leave_the_order_open(late):
    """They are notes, and rule nothing out."""
    page = (late / "report.md").read_text("utf-8")
    (improving,) = (row for row in page.splitlines() if row.startswith("Still improving"))
    assert "scripted_late" in improving and "scripted_poor" not in improving
    assert "--tune" in page
