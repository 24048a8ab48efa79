"""Predictions of trained classifiers, written and summed up by the command."""

import gzip
import io
import re
import shutil
import sys

import make_checkpoints
import pytest
import torch
from script_helpers import USER_DIR, command, lines, module
from sklearn.metrics import accuracy_score

from fairseq_odeformers.cli import main
from fairseq_odeformers.data.classification import (
    make_dictionary,
    write_dictionaries,
    write_split,
)

CLASSES = ("neither", "left", "right")


def write_data(folder, classes=CLASSES):
    """Sequences whose class is the symbol that they have most of."""
    dictionary = make_dictionary("abc")
    write_dictionaries(folder, 1, dictionary, classes)
    for split, size in (("train", 60), ("valid", 12), ("test", 13)):
        ids = ([4 + index % 3] * (5 + index % 4) + [4, 5, 6, 2] for index in range(size))
        write_split(
            folder, split, (([text], classes[(text[0] - 4) % len(classes)]) for text in ids)
        )
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def checkpoint(data, tmp_path_factory):
    """The best of some epochs, by accuracy."""
    folder = tmp_path_factory.mktemp("checkpoints")
    log = command(
        *["train", data, "--user-dir", USER_DIR, "--task", "long_range_arena"],
        *["--arch", "transevolve_classifier_randomff_1", "--encoder-embed-dim", 16],
        *["--encoder-ffn-embed-dim", 32, "--criterion", "sequence_classification"],
        *["--optimizer", "adam", "--lr", 0.003, "--batch-size", 8, "--max-epoch", 3],
        *["--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"],
        *["--save-dir", folder, "--no-progress-bar"],
    )
    assert len(re.findall(rf"valid on 'valid' subset .* f1_{CLASSES[2]} .* macro_f1", log)) == 3
    accuracies = list(map(float, re.findall(r"valid on .*? accuracy ([0-9.]+)", log)))
    best = re.findall(r"best_accuracy ([0-9.]+)", log)
    assert float(best[-1]) == max(accuracies)
    return folder / "checkpoint_best.pt"


def predict(data, path, output, *args):
    """The table as a list of rows, and what is printed."""
    out = module(
        "fairseq_odeformers", "predict", data, "--path", path, "--output", output, "--cpu", *args
    )
    return [line.split("\t") for line in lines(output)], out


def test_table_and_accuracy(data, checkpoint, tmp_path):
    """In the order of the data, the same as fairseq's own validation finds."""
    (header, *rows), out = predict(data, checkpoint, tmp_path / "test.tsv")
    assert "\r" not in out  # no progress bar in what is no terminal
    assert header == ["id", "target", "prediction", *(f"p({name})" for name in CLASSES)]
    assert [int(row[0]) for row in rows] == list(range(13))
    assert [row[1] for row in rows] == [CLASSES[index % 3] for index in range(13)]
    for row in rows:
        probabilities = dict(zip(CLASSES, map(float, row[3:])))
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert row[2] == max(probabilities, key=probabilities.get)
    accuracy = 100 * accuracy_score([row[1] for row in rows], [row[2] for row in rows])
    interval = proportion_confint(accuracy, 13)
    assert f"test: accuracy {accuracy:.2f}% (95% interval {interval}%)" in out
    log = command(
        *["validate", data, "--user-dir", USER_DIR, "--task", "long_range_arena"],
        *["--criterion", "sequence_classification", "--path", checkpoint],
        *["--valid-subset", "test", "--batch-size", 4],
    )
    assert float(re.search(r"accuracy ([0-9.]+)", log)[1]) == pytest.approx(accuracy, abs=0.01)


def proportion_confint(percent, total, z=1.959964):
    """Wilson's interval (1927) of a share of *total*, in percent."""
    share, spread = percent / 100, z * z / total
    center = (share + spread / 2) / (1 + spread)
    half = z * (share * (1 - share) / total + spread / total / 4) ** 0.5 / (1 + spread)
    return f"{100 * (center - half):.2f}-{100 * (center + half):.2f}"


def numbers(rows):
    return [list(map(float, row[3:])) for row in rows]


def test_ensemble_averages_probabilities(data, checkpoint, tmp_path):
    first = checkpoint.parent / "checkpoint1.pt"
    paths = (first, checkpoint, f"{first}:{checkpoint}")
    tables = (predict(data, path, tmp_path / "t.tsv")[0][1:] for path in paths)
    one, other, both = (torch.tensor(numbers(rows)) for rows in tables)
    assert (one - other).abs().max() > 1e-3
    assert torch.allclose(both, (one + other) / 2, atol=2e-6)


def test_split_without_labels(data, checkpoint, tmp_path):
    """There are predictions alone."""
    unlabelled = tmp_path / "data"
    shutil.copytree(data, unlabelled)
    for path in (unlabelled / "label").glob("test.*"):
        path.unlink()
    (_, *labelled), _ = predict(data, checkpoint, tmp_path / "one.tsv")
    (_, *rows), out = predict(unlabelled, checkpoint, tmp_path / "two.tsv")
    assert [row[2:] for row in rows] == [row[2:] for row in labelled]
    assert {row[1] for row in rows} == {""}
    assert "accuracy" not in out


def test_text(data, checkpoint, tmp_path, monkeypatch, capsys):
    """The same as for the same text in the data set, whether from a file or standard input."""
    (_, *expected), _ = predict(data, checkpoint, tmp_path / "test.tsv")
    texts = [" ".join("abc"[index % 3] * (5 + index % 4)) + " a b c" for index in range(13)]
    file = tmp_path / "text"
    file.write_text("\n".join(texts) + "\n")
    (header, *rows), _ = predict(data, checkpoint, tmp_path / "out.tsv", "--text", file)
    assert header == ["id", "text", "prediction", *(f"p({name})" for name in CLASSES)]
    assert [row[:2] for row in rows] == [[str(n), text] for n, text in enumerate(texts)]
    assert [row[2] for row in rows] == [row[2] for row in expected]
    assert torch.tensor(numbers(rows)).allclose(torch.tensor(numbers(expected)), atol=1e-5)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    main(["predict", str(data), "--path", str(checkpoint), "--cpu", "--text"])
    out = capsys.readouterr().out
    assert [line.split("\t") for line in out.splitlines()] == [header, *rows]


def test_texts_without_a_prediction(tmp_path, capsys):
    """Empty ones and those that are too long, unless these are cut; the others keep theirs."""
    make_checkpoints.write_data(tmp_path)
    path, file, long = tmp_path / "checkpoint.pt", tmp_path / "text", "1 " * 2000
    path.write_bytes(gzip.decompress(make_checkpoints.PATHS["transject"].read_bytes()))
    line = ["predict", str(tmp_path / "words"), "--path", str(path), "--cpu", "--text", str(file)]

    def rows(text, *options):
        file.write_text(text)
        main([*line, "--batch-size", "1", *options])
        out, err = capsys.readouterr()
        return [row.split("\t")[1:] for row in out.splitlines()[1:]], err

    (first, last), _ = rows("3 1\n2 7 5\n")
    texts = f"3 1\n \n{long}\n2 7 5\n"
    found, err = rows(texts)
    assert found == [first, [" ", *[""] * 4], [long, *[""] * 4], last]
    assert re.match(f"{file}, line 3: '1 .* has \\d+ tokens, more than", err)
    assert all(rows(texts, "--truncate")[0][2])


@pytest.fixture
def folder(data, checkpoint, tmp_path, monkeypatch):
    """The current folder, with files that ``predict`` refuses; nothing is written there."""
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path / "two", CLASSES[:2])
    write_data(tmp_path / "turned", CLASSES[::-1])
    make_dictionary("acb").save(str(write_data(tmp_path / "shuffled") / "input0" / "dict.txt"))
    (tmp_path / "tab").write_text("a b\na\tb\n")
    (tmp_path / "cr").write_bytes(b"a b\r\na\rb\r\n")
    for path in (write_data(tmp_path / "unlabelled") / "label").glob("valid.*"):
        path.unlink()
    saved = torch.load(checkpoint, weights_only=True)
    for part in ("model", "task"):
        name, saved["cfg"][part]["_name"] = saved["cfg"][part]["_name"], "of_my_own"
        torch.save(saved, tmp_path / f"{part}.pt")
        saved["cfg"][part]["_name"] = name
    (tmp_path / "export").mkdir()


@pytest.mark.parametrize(
    "data_set, options, message",
    [
        (None, ["--text", "tab"], "tab, line 2: a tab"),
        (None, ["--text", "cr"], "cr, line 2: a tab or a carriage return"),
        ("unlabelled", ["--split", "valid"], "unlabelled/label/valid.idx and .*no such file"),
        (None, ["--text", "tab", "--split", "valid"], "--split: not allowed with argument --text"),
        (None, ["--glue-submission"], "--glue-submission: .* is not called CoLA-bin, SST-2-bin"),
        (
            None,
            ["--text", "--batch-size", "-1"],
            "--batch-size: -1: give a whole number from 1",
        ),
        ("two", [], "was trained on 3 classes, but two has 2: neither, left"),
        ("turned", [], "classes neither, left, right, but those of turned .* right, left, neither"),
        ("shuffled", [], "checkpoint_best.pt does not fit .* or shuffled .* another dictionary"),
        (None, ["--path", "model.pt"], "model.pt is of the architecture of_my_own, .* --user-dir"),
        (None, ["--path", "task.pt"], "task.pt is of the task of_my_own, .* --user-dir"),
        (None, ["--path", "export"], r"error: safetensors is missing; .* extra \[export\]"),
        (None, ["--user-dir", "absent"], "--user-dir absent: no such folder"),
    ],
)
def test_refusals(
    data_set, options, message, data, checkpoint, folder, tmp_path, monkeypatch, capsys
):
    """Each is one line on standard error, after the usage if an option is at fault."""
    if "export" in options:
        monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    line = ["predict", data_set or str(data), "--path", str(checkpoint), "--cpu"]
    with pytest.raises(SystemExit) as stop:
        main([*line, "--output", "out.tsv", *options])
    error = str(stop.value) if stop.value.code != 2 else capsys.readouterr().err.splitlines()[-1]
    assert re.search(message, error) and "\n" not in error
    assert not (tmp_path / "out.tsv").exists()
