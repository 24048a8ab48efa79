"""Predictions of trained classifiers, written and summarised by the command."""

import gzip
import io
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.data import data_utils, indexed_dataset
from fairseq_cli import validate
from helpers import OLD
from make_checkpoints import PATHS, parsed, write_data, write_splits
from script_helpers import IN_MAIN_THREAD, labelled_texts, lines, trainings
from sklearn.metrics import accuracy_score, f1_score

from fairseq_odeformers import load_classifier
from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.inference.texts import WARNED
from odeformers.__main__ import main
from odeformers.predict import probabilities as probabilities_of

CLASSES = ["neither", "left", "right"]  # not sorted
HEADER = ["prediction", *(f"p({name})" for name in CLASSES)]


@pytest.fixture
def predict(tmp_path, monkeypatch, capsys):
    """Runs the command in a folder with a data set and two checkpoints; returns rows and output."""
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    write_splits(tmp_path, test=13)
    make_dictionary(CLASSES).save("words/label/dict.txt")
    state = torch.load(io.BytesIO(gzip.decompress(PATHS["transject"].read_bytes())))
    if OLD:  # fairseq's validation refuses unknown options
        criterion = state["cfg"]["criterion"]
        for name in [name for name in criterion if name.startswith("report_")]:
            del criterion[name]
    torch.save(state, "classifier.pt")
    for tensor in state["model"].values():
        tensor.mul_(1.5) if tensor.is_floating_point() else None
    torch.save(state, "other.pt")

    def run(path, *args, output=("--output", "out.tsv")):
        main(["predict", "words", "--path", path, "--cpu", *output, *args])
        printed = capsys.readouterr()
        table = lines(tmp_path / "out.tsv") if output else printed.out.splitlines()
        return [line.split("\t") for line in table], printed

    return run


def probabilities(rows):
    return torch.tensor([[float(share) for share in row[3:]] for row in rows])


def test_predictions_equal_fairseqs_validation(predict, tmp_path):
    """Rows are in the order of the data, and their accuracy is fairseq's."""
    (header, *rows), (out, err) = predict("classifier.pt")
    assert "\r" not in err  # no progress bar without a terminal
    assert header == ["id", "target", *HEADER]
    assert [row[0] for row in rows] == [str(number) for number in range(13)]
    targets, texts = zip(*labelled_texts(Path("words"), "test"))
    assert [row[1] for row in rows] == [*targets]
    own = load_classifier("classifier.pt", "words").classify(texts)
    own = torch.tensor([[*result.probabilities.values()] for result in own])
    assert torch.allclose(probabilities(rows), own, atol=1e-5)
    assert torch.pdist(own).min() > 1e-4 and len({*targets}) == 3  # shows any order
    assert [row[2] for row in rows] == [CLASSES[n] for n in probabilities(rows).argmax(1)]
    accuracy = 100 * accuracy_score([row[1] for row in rows], [row[2] for row in rows])
    wilson = "23.21-70.86%"  # Wilson's interval of 6 of 13
    f1 = 100 * f1_score([row[1] for row in rows], [row[2] for row in rows], average="macro")
    summary = f"test: accuracy {accuracy:.2f}% (95% interval {wilson}), 6 of 13; macro-F1 {f1:.2f}%"
    assert out.splitlines()[-1] == summary
    task = "words --task sentence_prediction --num-classes 3 --criterion sequence_classification"
    line = (
        "--path classifier.pt --valid-subset test --batch-size 4 --required-batch-size-multiple 1"
    )
    line = [*task.split(), *line.split(), "--cpu", *IN_MAIN_THREAD]
    config = parsed(line, options.get_validation_parser)
    (log,) = trainings([config], tmp_path, main=validate.main)
    assert float(re.search(r"accuracy ([0-9.]+)", log)[1]) == pytest.approx(accuracy, abs=0.05)


def test_ensemble_averages_probabilities(predict):
    one, other, both = (
        probabilities(predict(path)[0][1:])
        for path in ("classifier.pt", "other.pt", "classifier.pt:other.pt")
    )
    assert (one - other).abs().max() > 1e-3
    assert torch.allclose(both, (one + other) / 2, atol=2e-6)


@pytest.mark.parametrize("order", [1, -1])
def test_an_ensemble_counts_texts_too_long_for_one_model(predict, order):
    classifier = load_classifier("classifier.pt:other.pt", "words")
    classifier.models[0].encoder.max_source_positions = 5
    texts = data_utils.load_indexed_dataset("words/input0/test", None)
    longer = sum(len(text) > 5 for text in texts)
    assert 0 < longer < 13
    with pytest.raises(ValueError, match=f"^{longer} of 13 inputs of test are longer"):
        probabilities_of(classifier.task, [*classifier.models][::order], "test", 4)


def test_an_empty_split_is_refused(predict, capsys):
    """Only files of ``--dataset-impl cached`` can be empty."""
    for path in (Path("words", part, "test") for part in ("input0", "label")):
        indexed_dataset.IndexedDatasetBuilder(f"{path}.bin").finalize(f"{path}.idx")
    with pytest.raises(SystemExit):
        predict("classifier.pt")
    assert "test of words has no examples; choose a different --split" in capsys.readouterr().err


def test_a_split_without_labels_has_only_predictions(predict):
    (_, *labelled), _ = predict("classifier.pt")
    for path in Path("words/label").glob("test.*"):
        path.unlink()
    (_, *rows), (out, _) = predict("classifier.pt")
    assert [row[2:] for row in rows] == [row[2:] for row in labelled]
    assert {row[1] for row in rows} == {""}
    assert "accuracy" not in out


def test_unknown_symbols_are_named_with_their_line(predict, caplog):
    WARNED.clear()
    Path("text").write_text("2 7 5\n2 film 5\n")
    predict("classifier.pt", "--text", "text")
    message = "text, line 2: the model knows 2 of the 3 symbols; later texts are not reported"
    assert f"{message} (unknown: film)" in caplog.text


def test_a_long_unknown_word_is_truncated_in_its_warning(predict, caplog):
    WARNED.clear()
    Path("text").write_text(f"2 {'film' * 1500} 5\n")
    predict("classifier.pt", "--text", "text")
    assert f"(unknown: {'film' * 10}...)" in caplog.text


def test_a_compressed_file_of_texts_is_read(predict):
    Path("text").write_text("2 7 5\n7 7\n")
    Path("text.gz").write_bytes(gzip.compress(b"2 7 5\n7 7\n"))
    actual, expected = (predict("classifier.pt", "--text", name)[0] for name in ("text.gz", "text"))
    assert actual == expected


@pytest.mark.parametrize(
    "name, fault",
    [
        ("own.XLSX", "a spreadsheet; save it as text, a table as .csv"),
        ("own.parquet", "a table in columns; save it as .jsonl"),
    ],
)
def test_a_format_other_than_text_is_named(name, fault, predict, capsys):
    """The message is that of ``odeformers prepare``."""
    Path(name).write_bytes(b"PK\x03\x04\xff")
    with pytest.raises(SystemExit):
        predict("classifier.pt", "--text", name)
    assert f"--text {name}: {fault}" in capsys.readouterr().err


TABLES = {
    "own.csv": ('id,text,label\n1,"2 7\n5",left\n2,7 7,right\n', []),
    "two.csv": ("label,text\nleft,2 7 5\nright,7 7\n", []),
    "bare.csv": ('left,"2 7\t5"\nright,7 7\n', []),
    "one.csv": ('"2 7\r\n5"\n7 7\n', []),
    "named.csv": ("Nr;Nachricht;Art\n1;2 7 5;a\n2;7 7;b\n", ["--column", "Nachricht"]),
    "prepared.csv": ("Nr;Bericht;Art\n1;2 7 5;a\n2;7 7;b\n", []),
    "own.tsv": ("left\t2 7 5\nright\t7 7\n", []),
    "own.jsonl": ('{"id": 1, "text": "2 7\\n5"}\n{"id": 2, "text": "7 7"}\n', []),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_as_by_the_preparation(name, predict, caplog):
    """The header, --column or the preparation's --columns name it; line breaks are spaces."""
    content, options = TABLES[name]
    if name == "prepared.csv":
        Path("settings.json").write_text(json.dumps({"--columns": "Art,Bericht"}))
    Path("text").write_text("2 7 5\n7 7\n")
    expected, _ = predict("classifier.pt", "--text", "text")
    Path(name).write_text(content, newline="")
    rows, _ = predict("classifier.pt", "--text", name, *options)
    assert [row[1].split() for row in rows] == [row[1].split() for row in expected]
    assert [row[2:] for row in rows] == [row[2:] for row in expected]


@pytest.mark.parametrize(
    "content, columns, column",
    [
        ("Art,Bericht\nleft,2 7 5\n", "", "Bericht"),
        ("Bericht,Art\n2 7 5,left\n", "1,2", "Bericht"),  # of a preparation without a header
        ("17,2 7 5\n", "", "2"),
    ],
)
def test_an_unclear_column_of_texts_is_refused(content, columns, column, predict, capsys):
    """Of two columns without common names, the second has texts only if the first has classes."""
    Path("settings.json").write_text(json.dumps({"--columns": columns}))
    Path("table.csv").write_text(content)
    with pytest.raises(SystemExit):
        predict("classifier.pt", "--text", "table.csv")
    fault = re.escape(
        f"columns {content.partition(chr(10))[0].replace(',', ', ')} contains the texts"
    )
    message = f"table.csv, line 1: cannot tell which of the {fault}; pass --column with its name"
    assert re.search(message, capsys.readouterr().err)
    (_, row), _ = predict("classifier.pt", "--text", "table.csv", "--column", column)
    assert row[1] == "2 7 5"


def test_a_text_of_a_table_is_named_by_its_line(predict, caplog):
    """The line is where the row of the text begins."""
    WARNED.clear()
    Path("own.csv").write_text('text\n"2\n7"\nfilm 5\n')
    predict("classifier.pt", "--text", "own.csv")
    assert "own.csv, line 4: the model knows 1 of the 2 symbols" in caplog.text


def test_a_labelled_file_is_refused(predict, capsys):
    Path("text").write_text("left\t2 7 5\n")
    with pytest.raises(SystemExit):
        predict("classifier.pt", "--text", "text")
    message = "2 texts instead of 1 (tabs separate texts); give only the column of texts (cut -f 2)"
    assert f"text, line 1: {message}" in capsys.readouterr().err


def test_escaped_characters_are_warned_of(predict, monkeypatch, capsys):
    """The warning comes only if standard output lacks the characters; a file is in UTF-8."""
    Path("text").write_text("2 ü\n7 ä\n", encoding="utf-8")
    (_, *rows), printed = predict("classifier.pt", "--text", "text")
    assert [row[1] for row in rows] == ["2 ü", "7 ä"] and "escaped" not in printed.err
    stdout = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    main(["predict", "words", "--path", "classifier.pt", "--cpu", "--text", "text"])
    stdout.flush()
    assert rb"2 \xfc" in stdout.buffer.getvalue()
    output = capsys.readouterr().err
    assert output.count("escaped") == 1 and r"'\xfc'; give --output FILE" in output


def test_a_text_is_predicted_as_in_the_data_set(predict, monkeypatch):
    """A file and standard input give the same predictions.

    Empty texts have none, nor do texts that are too long unless they are truncated.
    """
    (_, first, *_), _ = predict("classifier.pt")
    *symbols, _ = data_utils.load_indexed_dataset("words/input0/test", None)[0].tolist()
    text, long = " ".join(str(symbol - 4) for symbol in symbols), "1 " * 2000
    texts = f"{text}\n \n{long}\n2 7 5\n"
    Path("text").write_text(texts)
    (header, *rows), (_, err) = predict("classifier.pt", "--text", "text")
    assert header == ["id", "text", *HEADER]
    assert [row[:2] for row in rows] == [[str(n), t] for n, t in enumerate(texts.splitlines())]
    assert rows[0][2] == first[2]
    assert torch.allclose(probabilities(rows[:1]), probabilities([first]), atol=1e-5)
    assert rows[1][2:] == rows[2][2:] == [""] * 4 and all(rows[3])
    assert re.match(r"text, line 3: '1 .* has \d+ tokens, more than .* --truncate\n", err)
    assert "text: 1 of 4 texts is empty and has no class\n" in err
    for more in ([], ["--truncate"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(texts.encode())))
        found, _ = predict("classifier.pt", *more, "--text", output=())
        assert [found[0], *found[1:3], found[4]] == [header, *rows[:2], rows[3]]
        assert all(found[3]) == bool(more)


@pytest.mark.parametrize("saved", ["transject", "macaron_classifier.pairs"])
def test_pairs_are_lines_of_two_texts(saved, predict, capsys):
    """A model that joins the two by a separator also takes a single text."""
    state = torch.load(io.BytesIO(gzip.decompress(PATHS[saved].read_bytes())))
    if joins := saved == "transject":
        state["cfg"]["task"]["separator_token"] = 6
    torch.save(state, "pairs.pt")
    texts = [("1 2 3", "7 8 9"), ("7 8 9", "1 2 3"), ("4", ""), *[("1 2 3",)] * joins]
    line = ["predict", "pairs", "--path", "pairs.pt", "--cpu", "--text", "text"]
    Path("text").write_text("".join("\t".join(text) + "\n" for text in [*texts, ("",)]))
    main(line)
    out, err = capsys.readouterr()
    header, *rows, _ = [row.split("\t") for row in out.splitlines()]
    assert header[1:4] == ["text1", "text2", "prediction"]
    classifier = load_classifier("pairs.pt", "pairs")
    for row, text, (label, shares) in zip(rows, texts, classifier.classify(texts), strict=True):
        assert row[1:4] == [*text, *[""] * (2 - len(text)), label]
        found = [float(share) for share in row[4:] if share]
        assert found == pytest.approx([*shares.values()], abs=1e-5)
    assert f"text: 2 of {len(texts) + 1} texts are empty and have no class\n" in err
    takes = "1 or 2" if joins else "2"
    for given, wrong in {"3 texts": "1\t2\t3", **({} if joins else {"1 text": "1 2 3"})}.items():
        Path("text").write_text(f"1\t2\n{wrong}\n")
        with pytest.raises(SystemExit):
            main(line)
        message = f"text, line 2: {given} instead of {takes} (tabs separate texts); give two texts "
        assert message in capsys.readouterr().err


PAIRS = {
    "own.csv": ('id,sentence2,sentence1,label\n1,"7\n8",2 7 5,left\n2,9,"7\t7",right\n', []),
    "bare.csv": ("2 7 5,7 8\n7 7,9\n", []),
    "bare.tsv": ("2 7 5\t7 8\n7 7\t9\n", []),
    "labelled.tsv": ("0\t2 7 5\t7 8\n1\t7 7\t9\n", []),
    "own.tsv": ("premise\thypothesis\n2 7 5\t7 8\n7 7\t9\n", []),
    "own.jsonl": (
        '{"question": "2 7 5", "answer": "7 8"}\n{"question": "7 7", "answer": "9"}\n',
        [],
    ),
    "named.csv": ("B;A;Art\n7 8;2 7 5;a\n9;7 7;b\n", ["--column", "A,B"]),
    "numbered.csv": ("7 8,x y z,2 7 5\n9,x,7 7\n", ["--column", "3,1"]),
    "prepared.csv": ("Nr;Zweiter;Erster\n1;7 8;2 7 5\n2;9;7 7\n", []),
}


def pair_line():
    """The command line with a model of pairs."""
    Path("pairs.pt").write_bytes(gzip.decompress(PATHS["macaron_classifier.pairs"].read_bytes()))
    return ["predict", "pairs", "--path", "pairs.pt", "--cpu", "--text"]


@pytest.mark.parametrize("name", PAIRS)
def test_a_table_has_pairs_in_two_columns(name, predict, capsys):
    """The header, --column or the preparation's --columns name the two, or there are no others."""
    line = pair_line()
    Path("text").write_text("2 7 5\t7 8\n7 7\t9\n")
    main([*line, "text"])
    expected, _ = capsys.readouterr()
    content, options = PAIRS[name]
    if name == "prepared.csv":
        Path("settings.json").write_text(json.dumps({"--columns": "Art,Erster,Zweiter"}))
    Path(name).write_text(content, newline="")
    main([*line, name, *options])
    actual, _ = capsys.readouterr()
    assert actual == expected and len(actual.splitlines()) == 3


@pytest.mark.parametrize(
    "content, options, fault",
    [
        (
            "A,B,C\n1,2,3\n",
            [],
            "line 1: .* A, B, C contain the two .* pass --column .* as A,B",
        ),
        ("text,Art\n1,2\n", [], "line 1: the header text, Art does not tell .* or pass --column$"),
        ('{"A": 1, "B": 2}\n', [], "line 1: .* which of the columns A, B contain the two texts"),
        ("A,B\n1,2\n", ["--column", "A"], "--column A: the model classifies pairs; name two"),
        ("A,B\n1,2\n", ["--column", "A,C"], "line 1: there is no column C"),
        ("A,B\n1,2\n", ["--column", "A,A"], "line 1: A,A: name each column once"),
        ("text1,text2\n1,2\n1\n", [], "line 3: expected 2 columns, text1,text2, found 1"),
    ],
)
def test_wrong_columns_of_pairs_are_named(content, options, fault, predict, capsys):
    (path := Path("own.jsonl" if content.startswith("{") else "own.csv")).write_text(content)
    with pytest.raises(SystemExit):
        main([*pair_line(), str(path), *options])
    assert re.search(fault, capsys.readouterr().err.splitlines()[-1])


def test_a_first_pair_that_may_be_a_header_is_warned_of(predict, caplog):
    Path("own.csv").write_text("Erster,Zweiter\n1 2 3,4 5 6\n")
    message = (
        "own.csv, line 1: Erster | Zweiter is the first pair; if it is a header, pass --column"
    )
    for chosen in ([], ["--column", "1,2"], ["--column", "Erster,Zweiter"]):
        caplog.clear()
        main([*pair_line(), "own.csv", *chosen])
        assert (message in caplog.text) == ("Erster,Zweiter" not in chosen)
