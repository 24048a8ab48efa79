"""The published tables become examples of sentence_prediction; bad tables are named."""

import io
import re
import shutil
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from helpers import HEAD, make_classifier
from published import write_archive, write_folder
from script_helpers import ROOT, contents, lines, sentence_prediction

from fairseq_odeformers.inference.hub import Classifier
from odeformers import predict
from odeformers.__main__ import main

OPERATIONS = 60
SIZES = {"train": 30, "valid": 8, "valid1": 7, "test": 6, "test1": 5}
FILES = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
MNLI_FILES = {
    "train": "train.tsv",
    "valid": "dev_matched.tsv",
    "valid1": "dev_mismatched.tsv",
    "test": "test_matched.tsv",
    "test1": "test_mismatched.tsv",
}
PAIR = ["sentence1", "sentence2"]
BINARY = ["0", "1"]
ENTAILMENT = ["entailment", "not_entailment"]
LAYOUTS = {  # archive, columns of the sentences and of the label, and labels
    "CoLA": ("CoLA", ["sentence"], "label", BINARY),
    "SST-2": ("SST-2", ["sentence"], "label", BINARY),
    "MRPC": (None, ["#1 String", "#2 String"], "Quality", BINARY),
    "STS-B": ("STS-B", PAIR, "score", ["0.000", "2.500", "4.250", "5"]),
    "QQP": ("QQP-clean", ["question1", "question2"], "is_duplicate", BINARY),
    "MNLI": ("MNLI", PAIR, "gold_label", ["entailment", "neutral", "contradiction"]),
    "QNLI": ("QNLIv2", ["question", "sentence"], "label", ENTAILMENT),
    "RTE": ("RTE", PAIR, "label", ENTAILMENT),
}


def splits(task):
    return MNLI_FILES if task == "MNLI" else FILES


def published_examples(task, split):
    """The texts as published and as they should become, and the label, of each example."""
    _, columns, _, labels = LAYOUTS[task]
    for number in range(SIZES[split]):
        about = [(task, split, column, number, " ".join(SIZES)) for column in range(len(columns))]
        raw = ['{} {}: "It’s {}-{}" & {}.'.format(*words) for words in about]
        clean = ['{} {} : " it \'s {}-{} " & {} .'.format(*words).lower() for words in about]
        yield raw, clean, labels[number * 7 // 3 % len(labels)]


def table(task, split):
    """The lines of a published table.

    CoLA has no header, QQP has broken lines, and MNLI has examples without a label.
    """
    _, columns, label_column, _ = LAYOUTS[task]
    labelled = not split.startswith("test")
    bare = task == "CoLA" and labelled
    if not bare:
        yield "\t".join(["index", *columns, *([label_column] if labelled else [])])
    for number, (sentences, _, label) in enumerate(published_examples(task, split)):
        if bare:
            yield f"gj04\t{label}\t*\t{sentences[0]}"
        else:
            yield "\t".join([str(number), *sentences, *([label] if labelled else [])])
        if task == "QQP" and labelled and number % 5 == 2:
            yield "133273\tHow is the life of a math student?"
            yield "Could you describe it?\tWhich level of prepration is enough?\t0"
        if task == "MNLI" and labelled and number % 4 == 2:
            yield "\t".join([str(number), *sentences, "-"])


def ended(lines, end="\n"):
    return "".join(line + end for line in lines).encode()


def write_mrpc(folder):
    """Microsoft's corpus, with a byte order mark, and the pairs of the development set."""
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    rows = {
        split: [
            f"{label}\t{split}{number}\t{number}\t{one}\t{two}"
            for number, ((one, two), _, label) in enumerate(published_examples("MRPC", split))
        ]
        for split in FILES
    }
    mixed = rows["train"][:10] + rows["valid"][::-1] + rows["train"][10:]
    valid = [*rows["valid"][1::2][::-1], *rows["valid"][::2]]
    tables = {
        "senteval_data/msr_paraphrase_train.txt": [header, *mixed],
        "senteval_data/msr_paraphrase_test.txt": [header, *rows["test"]],
        "mrpc_dev_ids.tsv": ["\t".join(row.split("\t")[1:3]) for row in valid],
    }
    write_folder(folder, {name: ended(lines, "\r\n") for name, lines in tables.items()})


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    for task, (archive, *_) in LAYOUTS.items():
        if archive:
            others = ("__MACOSX/._train.tsv", f"{task}/original/train.tsv")
            tables = {f"{task}/{name}": ended(table(task, s)) for s, name in splits(task).items()}
            write_archive(folder / f"{archive}.zip", {**dict.fromkeys(others, b"not"), **tables})
    write_mrpc(folder)
    return folder


@pytest.fixture(scope="module")
def out(published, tmp_path_factory):
    out = tmp_path_factory.mktemp("glue")
    options = ["--from", published, "--out", out, "--bpe-operations", OPERATIONS, "--workers", 1]
    main(["prepare", "glue", *map(str, options)])
    assert {path.name for path in out.glob("*-bin")} == {f"{task}-bin" for task in LAYOUTS}
    return out


@pytest.mark.parametrize("task", LAYOUTS)
def test_sentence_prediction_loads_the_examples(out, task):
    """Texts, labels and order are as published, and test sets have no labels.

    All tasks share one dictionary, and the classes have a fixed order.
    """
    labels = LAYOUTS[task][3]
    classes = 1 if task == "STS-B" else len(labels)
    folder = out / f"{task}-bin"
    for split in splits(task):
        prediction, dataset = sentence_prediction(folder, split, classes, task == "STS-B")
        expected = list(published_examples(task, split))
        if (task, split) == ("MRPC", "valid"):
            expected.reverse()  # in the order of the corpus, not of the list
        assert len(dataset) == len(expected)
        for example, (_, sentences, label) in zip(dataset, expected):
            text = prediction.source_dictionary.string(
                example["net_input.src_tokens"], "subword_nmt", include_eos=True
            ).split(" </s>")
            assert [sentence.strip() for sentence in text] == [*sentences, ""]
            if split.startswith("test"):
                assert "target" not in example
            elif task == "STS-B":
                assert example["target"] == [float(label) / 5]
            else:
                assert example["target"].tolist() == [labels.index(label)]
    vocabulary = out / "vocabulary"
    assert (folder / "code").read_bytes() == (vocabulary / "code").read_bytes()
    for number in range(len(LAYOUTS[task][1])):
        shared = (vocabulary / "dict.txt").read_bytes()
        assert (folder / f"input{number}" / "dict.txt").read_bytes() == shared


@pytest.mark.parametrize("task", ["MNLI", "SST-2"])
def test_a_submission_has_a_prediction_per_test_line(out, task, tmp_path, monkeypatch):
    """Lines are in the published order, counted from 0, with the names of the labels."""
    labels = LAYOUTS[task][3]
    setup, _ = sentence_prediction(out / f"{task}-bin", "test", len(labels))
    setup.cfg.separator_token = 2
    model = make_classifier("transformer_classifier", task=setup, classes=len(labels))
    model.classification_heads["head"] = model.classification_heads.pop(HEAD)
    classifier = Classifier([model], setup)
    monkeypatch.setattr(predict, "load_classifier", lambda *args: classifier)
    line = ["--path", "best.pt", "--cpu", "--batch-size", "4", "--glue-submission"]
    main(["predict", str(out / f"{task}-bin"), *line, "--output", str(tmp_path)])
    names = {"test": "MNLI-m", "test1": "MNLI-mm"} if task == "MNLI" else {"test": task}
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.tsv" for name in names.values()}
    for split, name in names.items():
        texts = [
            clean[0] if len(clean) == 1 else clean
            for _, clean, _ in published_examples(task, split)
        ]
        expected = [f"{n}\t{label}" for n, (label, _) in enumerate(classifier.classify(texts))]
        lines = (tmp_path / f"{name}.tsv").read_text().splitlines()
        assert lines == ["index\tprediction", *expected]


def files_of(task, models=()):
    """A function in the place of the one that reads checkpoints, for trainings on a task."""
    loaded, regression = iter(models), task.cfg.regression_target

    def build(*args):
        return next(loaded), task, None

    return lambda paths: [
        Namespace(path=path, regression=regression, build=build) for path in paths.split(":")
    ]


@pytest.mark.parametrize("biases", [(0.2, 0.6), (2.0, 3.0), (-3.0, -2.0)])
def test_a_submission_of_scores_is_within_0_and_5(biases, out, tmp_path, monkeypatch):
    """A score of STS-B is five times the average output of the heads."""
    setup, dataset = sentence_prediction(out / "STS-B-bin", "test", 1, regression=True)
    models = []
    for bias in biases:
        model = make_classifier("transformer_classifier", task=setup, classes=1)
        model.classification_heads["head"] = model.classification_heads.pop(HEAD)
        last = model.classification_heads["head"].out_proj
        torch.nn.init.normal_(last.weight, std=0.1)
        torch.nn.init.constant_(last.bias, bias)
        models.append(model.eval())
    monkeypatch.setattr(predict, "read_each", files_of(setup, models))
    line = ["--path", "a.pt:b.pt", "--cpu", "--batch-size", "4", "--glue-submission"]
    main(["predict", str(out / "STS-B-bin"), *line, "--output", str(tmp_path)])
    header, *rows = (tmp_path / "STS-B.tsv").read_text().splitlines()
    assert header == "index\tprediction" and len(rows) == SIZES["test"]
    for number, row in enumerate(rows):
        inputs = dataset.collater([dataset[number]])["net_input"]
        each = [model(**inputs, classification_head_name="head")[0].item() for model in models]
        index, score = row.split("\t")
        assert int(index) == number
        assert float(score) == pytest.approx(min(5, max(0, 5 * sum(each) / 2)), abs=1e-3)
    assert (len({row.split("\t")[1] for row in rows}) > 2) == (biases == (0.2, 0.6))


def test_a_submission_of_scores_needs_a_regression(out, monkeypatch, capsys):
    setup, _ = sentence_prediction(out / "RTE-bin", "test", 2)
    monkeypatch.setattr(predict, "read_each", files_of(setup))
    line = ["predict", str(out / "STS-B-bin"), "--path", "best.pt", "--cpu", "--glue-submission"]
    with pytest.raises(SystemExit, match="^2$"):
        main(line)
    assert "best.pt was not trained with --regression-target" in capsys.readouterr().err


def test_pretraining_text_is_tokenised_like_the_tasks(tmp_path):
    """The Python code in ``prepare_text.sh`` gives the tokens of the tasks before subwords."""
    script = (ROOT / "examples" / "macaron" / "prepare_text.sh").read_text()
    [program] = re.findall(r'python -c "\n(.*?)" <', script, re.DOTALL)
    raw, clean, _ = next(published_examples("RTE", "train"))
    stdin, stdout = io.StringIO(f"{raw[0]}\n\n"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        patch.setattr(sys, "stdout", stdout)
        exec(program, {})
    assert stdout.getvalue() == f"{clean[0]}\n\n"


def test_skipped_lines_are_counted(prepare, published):
    """Fragments of lines and pairs without a label are skipped."""
    log = prepare(f"glue QQP MNLI --bpe-operations {OPERATIONS}", published)
    assert "QQP/train.tsv: skipped 12 lines" in log
    assert "MNLI/dev_matched.tsv: skipped 2 with label -" in log


def test_an_existing_vocabulary_is_used(prepare, published, out):
    """The codes and dictionary of one preparation give the same data for one task of an archive."""
    expected = out / "RTE-bin"
    vocabulary = ["--bpe-codes", expected / "code", "--dict", expected / "input0" / "dict.txt"]
    prepare("glue RTE", published / "RTE.zip", *vocabulary, workers=2)
    assert contents(prepare.out / "RTE-bin") == contents(expected)
    assert {path.name for path in prepare.out.glob("[!.]*/")} == {"RTE-bin", "raw", "tokenized"}


def test_another_vocabulary_takes_another_folder(prepare, published, tmp_path):
    """Codes may be another file, or learned on more tasks; no task is prepared with them."""
    line = "glue RTE --bpe-operations"
    prepare(f"{line} 9", published)
    learned = prepare.out / "vocabulary"
    files = shutil.copy(learned / "code", tmp_path), shutil.copy(learned / "dict.txt", tmp_path)
    before = contents(prepare.out / "RTE-bin")
    refused = f"{prepare.out} was prepared with other --bpe-codes, --dict or tasks; remove it"
    with pytest.raises(Exception, match=refused):
        prepare("glue MRPC RTE --bpe-operations 9", published)
    out = tmp_path / "given"
    vocabulary = ["--bpe-codes", files[0], "--dict", files[1]]
    prepare("glue RTE", published, *vocabulary, out=out)
    prepare("glue MRPC RTE", published, *vocabulary, out=out)
    Path(files[0]).write_text("".join(Path(files[0]).read_text().splitlines(True)[:3]))
    with pytest.raises(Exception, match=refused.replace(str(prepare.out), str(out))):
        prepare("glue QQP RTE", published, *vocabulary, out=out)
    assert before == contents(out / "RTE-bin") == contents(prepare.out / "RTE-bin")
    assert {path.name for path in tmp_path.rglob("*-bin")} == {"RTE-bin", "MRPC-bin"}


def test_a_bad_vocabulary_is_refused_before_work_starts(prepare, published, tmp_path):
    vocabulary = tmp_path / "code", tmp_path / "dict.txt"
    for texts, message in (
        (("#version: 0.2\n", "a 1\n"), f"{vocabulary[0]} has no BPE codes"),
        (
            ("#version: 0.2\na b\n", "a\n"),
            f"{vocabulary[1]} is not a dictionary of fairseq .Incorrect",
        ),
    ):
        for path, text in zip(vocabulary, texts):
            path.write_text(text)
        options = ["--bpe-codes", vocabulary[0], "--dict", vocabulary[1]]
        prepare.refuses(message, "glue RTE", published, *options)
        assert not list(prepare.out.glob("[!.]*"))


RTE_HEADER = "index\tsentence1\tsentence2\tlabel"


def test_columns_are_found_by_name(prepare, tmp_path):
    """Quotes are part of the text, and further columns do not matter."""
    table = ended(
        [
            "\ufefflabel\tsentence2\tx\tsentence1",
            'entailment\t"two two\t\tone\r',
            'not_entailment\t"\tx\t\r',
        ]
    )
    names = ("train", "dev", "test")
    source = write_folder(tmp_path / "from", {f"RTE/{name}.tsv": table for name in names})
    prepare("glue RTE --bpe-operations 2", source)
    tokenized = prepare.out / "tokenized" / "RTE"
    assert lines(tokenized / "train.input0") == ["one", ""]
    assert lines(tokenized / "train.input1") == ['" two two', '"']
    assert lines(tokenized / "train.label") == ["entailment", "not_entailment"]


@pytest.mark.parametrize(
    "task, table, message",
    [
        ("RTE", [RTE_HEADER, "0\ta\tb"], "line 2 has 3 of 4 columns"),
        ("RTE", ["index\tsentence1"], "has no column sentence2, label; its columns are index, s"),
        ("RTE", [], "has no column sentence1, sentence2, label; its columns are $"),
        ("RTE", [RTE_HEADER, "0\ta\tb\tneutral"], "line 2: label is 'neutral', expected ent"),
        ("RTE", [RTE_HEADER], "has no examples"),
        ("MNLI", ["sentence1\tsentence2\tgold_label", "a\tb\t-"], "has no examples"),
        *(
            ("STS-B", ["sentence1\tsentence2\tscore", f"a\tb\t{score}"], f"score is '{score}'")
            for score in ("5.001", "-1", "nan", "good", "")
        ),
    ],
)
def test_bad_tables_are_named(task, table, message, prepare, tmp_path):
    files = {f"{task}/{name}": ended(table) for name in splits(task).values()}
    source = write_folder(tmp_path / "from", files)
    prepare.refuses(f"{task}/train.tsv.* ?{message}", f"glue {task}", source)


def test_a_task_with_one_label_is_refused(prepare, tmp_path):
    table = ended([RTE_HEADER, *(f"{n}\tfirst {n}\tsecond {n}\tentailment" for n in range(9))])
    files = {f"RTE/{name}.tsv": table for name in ("train", "dev", "test")}
    message = "training set has one class, entailment"
    line = f"glue RTE --bpe-operations {OPERATIONS}"
    prepare.refuses(message, line, write_folder(tmp_path / "from", files))


@pytest.mark.parametrize(
    "label, listed, message",
    [
        (1, "11\t10", "mrpc_dev_ids.tsv names no pair of msr_paraphrase_train"),
        (2, "10\t11", "msr_paraphrase_train.txt, line 2: Quality is '2', expected 0, 1"),
    ],
)
def test_bad_files_of_microsofts_corpus_are_named(label, listed, message, prepare, tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    tables = [header, f"{label}\t10\t11\ta\tb"], [header], [listed]
    names = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt", "mrpc_dev_ids.tsv"
    source = write_folder(tmp_path / "from", dict(zip(names, map(ended, tables))))
    prepare.refuses(message, "glue MRPC", source)
