"""The report of runs, on logs and predictions with known statistics."""

import importlib.util
import json
import sys

import pytest
from sacrebleu import corpus_bleu, corpus_chrf
from script_helpers import ROOT, lines

pytest.importorskip("matplotlib")
spec = importlib.util.spec_from_file_location("runs_report", ROOT / "examples" / "report.py")
report = importlib.util.module_from_spec(spec)
sys.modules["runs_report"] = report  # where dataclasses look for it
spec.loader.exec_module(report)

REFERENCES = [
    "Two young, White males are outside near many bushes.",
    "Several men in hard hats are operating a giant pulley system.",
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "Someone's dog isn't in the house.",
] * 5
PERFECT = [
    "two young , white males are outside near many bushes .",
    "several men in hard hats are operating a giant pulley system .",
    "a man in a blue shirt is standing on a ladder cleaning a window .",
    "someone &apos;s dog isn &apos;t in the house .",
] * 5
WORSE = [text.replace("a ", "one ").replace("are", "is") for text in PERFECT]


def log(*epochs, parameters=1234):
    """A log as fairseq writes it, of epochs of updates so far, validation loss and seconds."""
    text = f"2026-11-22 16:38:37 | INFO | train | num. shared model params: {parameters:,} (num.\n"
    for updates, loss, seconds in epochs:
        for kind, stats in (
            ("valid", {"valid_loss": loss, "valid_num_updates": updates}),
            ("train", {"train_train_wall": seconds, "train_num_updates": updates}),
        ):
            stats = json.dumps({name: str(value) for name, value in stats.items()})
            text += f"2026-11-22 16:38:37 | INFO | {kind} | {stats}\n"
    return text


def write_run(folder, name, translations=None, correct=None, epochs=((10, 5.0, 7), (20, 4.0, 9))):
    run = folder / name
    run.mkdir(parents=True)
    (run / "train.log").write_text(log(*epochs))
    if translations:
        hypotheses = reversed([f"H-{n}\t-0.1\t{text}\n" for n, text in enumerate(translations)])
        score = "Generate test with beam=5: BLEU4 = 12.34, 50.0/40.0/30.0/20.0\n"
        (run / "averaged.test.out").write_text("".join(hypotheses) + score)
    if correct is not None:
        rows = [f"{n}\ta\t{'a' if n < correct else 'b'}\t0.5\t0.5\n" for n in range(10)]
        header = "id\ttarget\tprediction\tp(a)\tp(b)\n"
        (run / "test.tsv").write_text(header + "".join(rows))
    return run


@pytest.fixture
def translations(tmp_path):
    """What run.sh leaves of two architectures, two seeds, and an unfinished run."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "test_2016_flickr.en").write_text("\n".join(REFERENCES) + "\n")
    for seed in (1, 2):
        write_run(tmp_path, f"good-seed{seed}", PERFECT)
        write_run(tmp_path, f"bad-seed{seed}", WORSE)
    write_run(tmp_path, "good-seed3")
    return tmp_path


def main(monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["report.py", *map(str, options)])
    report.main()


def test_statistics_over_seeds():
    """Student's interval: with five values 2.776 standard errors, with two 12.71."""
    assert report.over_seeds([1, 2, 3, 4, 5]) == "3.00 ± 1.58 (1.04 to 4.96)"
    assert report.over_seeds([1000, 1002], 1) == "1,001.0 ± 1.4 (988.3 to 1,013.7)"
    assert report.over_seeds([7], 1) == report.over_seeds([7, 7], 1) == "7.0"


def test_training(tmp_path):
    """Of what an interrupted run has repeated the last counts; seconds are of training alone."""
    path = tmp_path / "train.log"
    path.write_text(log((10, 5.0, 7), (20, 4.5, 100)) + log((20, 4.0, 9), (30, 4.2, 4)))
    found = report.read_training(path)
    assert found.parameters == 1234
    assert found.updates.tolist() == [10, 20, 30]
    assert found.losses.tolist() == [5.0, 4.0, 4.2]
    assert found.seconds.tolist() == [7, 16, 20]


def test_translations(translations, monkeypatch, capsys):
    """BLEU and chrF are sacrebleu's of detokenised text; the bootstrap tells the two apart."""
    main(monkeypatch, translations, "--baseline", "good")
    output = capsys.readouterr()
    assert output.err == f"{translations / 'good-seed3'}: not finished\n"
    detokenized = [text.replace(" ,", ",").replace(" .", ".") for text in WORSE]
    detokenized = [text.replace(" &apos;", "'") for text in detokenized]
    bleu, chrf = (
        score(detokenized, [list(map(str.lower, REFERENCES))]).score
        for score in (corpus_bleu, corpus_chrf)
    )
    title, _, _, _, bad, good, _, *signatures = output.out.splitlines()[:9]
    assert title == "test_2016_flickr, last three epochs averaged"
    assert bad == f"| `bad` | 2 | {bleu:.2f} | {chrf:.2f} | 12.34 | 0.001, 0.001 |"
    assert good == "| `good` | 2 | 100.00 | 100.00 | 12.34 |  |"
    assert "case:lc" in signatures[0] and "tok:13a" in signatures[0]
    assert "| `good` | 1,234 | 2 | 4.000 | 20 | 16 |" in output.out


def test_chance_is_not_significant():
    """Two systems that make the same errors in different sentences, or in the same."""
    assert report.p_value(WORSE, WORSE, REFERENCES) == 1
    one, other = WORSE[:4] + PERFECT[4:], PERFECT[:4] + WORSE[4:8] + PERFECT[8:]
    assert report.p_value(one, other, REFERENCES) > 0.3


def test_classification(tmp_path, monkeypatch, capsys):
    """Runs of other recipes are left out."""
    for seed, correct in enumerate((7, 8, 9), start=1):
        write_run(tmp_path, f"small-transject-seed{seed}", correct=correct)
    write_run(tmp_path, "transject-transject-seed1", correct=0)
    main(monkeypatch, tmp_path, "--prefix", "small-")
    expected = "| `transject` | 3 | 80.0 ± 10.0 (55.2 to 104.8) | 70.0, 80.0, 90.0 |\n"
    assert expected in capsys.readouterr().out


def test_curves(tmp_path, monkeypatch):
    """Means over seeds at the updates that all of them have, in a small file."""
    for name, *epochs in (
        ("one-seed1", (10, 5.0, 7), (20, 4.0, 9)),
        ("one-seed2", (10, 6.0, 9), (20, 5.0, 11), (30, 1.0, 1)),
        ("two-seed1", (10, 3.0, 1)),
    ):
        write_run(tmp_path, name, correct=5, epochs=epochs)
    trainings = report.each(report.find_runs(tmp_path), "train.log", report.read_training)
    by_updates, by_seconds = report.curves(trainings).axes
    assert [line.get_label() for line in by_updates.lines] == ["one (2)", "two (1)"]
    assert by_updates.lines[0].get_xydata().tolist() == [[10, 5.5], [20, 4.5]]
    assert by_seconds.lines[0].get_xydata().tolist() == [[8, 5.5], [18, 4.5]]
    main(monkeypatch, tmp_path, "--curves", tmp_path / "curves.png")
    assert 1_000 < (tmp_path / "curves.png").stat().st_size < 300_000


def test_trainings_are_kept_without_their_runs(tmp_path, monkeypatch, capsys):
    """A table of two runs is theirs when one of them is gone; a run in RUNS replaces its rows."""
    table = tmp_path / "trainings.csv"
    for run, loss in (("one-seed1", 4.0), ("one-seed2", 5.0), ("another-seed1", 7.0)):
        write_run(tmp_path, run, correct=5, epochs=((10, 6.0, 7), (20, loss, 9)))
    main(monkeypatch, tmp_path, "--trainings", table)
    whole = capsys.readouterr().out.split("Training")[1]
    for run in ("one-seed1", "another-seed1"):
        (tmp_path / run).rename(tmp_path / f"gone-{run}-")
    main(monkeypatch, tmp_path, "--trainings", table)
    assert capsys.readouterr().out.split("Training")[1] == whole
    write_run(tmp_path, "one-seed1", correct=5, epochs=((10, 3.0, 7),))
    main(monkeypatch, tmp_path, "--trainings", table)
    found = report.read_trainings(table)["one"]
    assert {seed: run.losses.tolist() for seed, run in found.items()} == {1: [3], 2: [6, 5]}
    assert found[2].seconds.tolist() == [7, 16] and found[2].parameters == 1234

    before = table.read_text()
    (tmp_path / "one-seed2" / "train.log").write_text(log((10, 3.0, 7), parameters=99))
    with pytest.raises(SystemExit):
        main(monkeypatch, tmp_path, "--trainings", table)
    assert "one has runs of 99 and 1,234 parameters" in capsys.readouterr().err
    assert table.read_text() == before
    (tmp_path / "one-seed2" / "train.log").write_text(log((10, 3.0, 7)))

    for text, message in (
        ("arch,seed\none,1\n", "line 1: its columns are not arch, seed, parameters"),
        (
            table.read_text() + "one,x,1,1,1,1\n",
            "line 7: invalid literal for int()",
        ),
    ):
        table.write_text(text)
        with pytest.raises(SystemExit):
            main(monkeypatch, tmp_path, "--trainings", table)
        assert f"{table}, {message}" in capsys.readouterr().err


def test_what_cannot_be_read(translations, monkeypatch, capsys):
    def message(*options):
        with pytest.raises(SystemExit) as stopped:
            main(monkeypatch, *options)
        assert stopped.value.code == 1
        return capsys.readouterr().err.splitlines()[-1]

    assert "has no finished run called tiny-ARCH-seedN" in message(
        translations, "--prefix", "tiny-"
    )
    assert "--baseline ugly: choose from bad, good" in message(translations, "--baseline", "ugly")
    path = translations / "good-seed1" / "averaged.test.out"
    path.write_text("\n".join(lines(path)[:-1]) + "\n")
    assert f"{path} does not end with fairseq-generate's BLEU" in message(translations)
    path.write_text("\n".join(lines(path)[1:]) + "\n")
    assert f"{path} has 19 lines" in message(translations)
    (translations / "bad-seed1" / "train.log").write_text("")
    path.unlink()
    assert "train.log has no epoch that has ended" in message(translations)
