"""``scripts/prepare-glue.sh`` on small files that have the layout of the published ones."""

import zipfile
from collections import Counter

import pytest
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from script_helpers import assert_survives_kills, contents, run, times

from fairseq_odeformers.corpora import glue

SCRIPT = "prepare-glue.sh"
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
BINARY = ["0", "1"]
ENTAILMENT = ["entailment", "not_entailment"]
STS_B = "index genre filename year old_index source1 source2 sentence1 sentence2 score"
MNLI = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
    "sentence2_parse sentence1 sentence2 label1 gold_label"
)
# Archive, sentence columns, label column and labels of each task, and the header of its files with
# and without labels.
LAYOUTS = {
    "CoLA": ("CoLA", ["sentence"], "label", BINARY, None, "index sentence"),
    "SST-2": ("SST-2", ["sentence"], "label", BINARY, "sentence label", "index sentence"),
    "MRPC": (None, ["#1 String", "#2 String"], "Quality", BINARY, None, None),
    "STS-B": (
        *("STS-B", ["sentence1", "sentence2"], "score", ["0.000", "2.500", "4.250", "5"]),
        *(STS_B, STS_B.rsplit(maxsplit=1)[0]),
    ),
    "QQP": (
        *("QQP-clean", ["question1", "question2"], "is_duplicate", BINARY),
        *("id qid1 qid2 question1 question2 is_duplicate", "id question1 question2"),
    ),
    "MNLI": (
        *("MNLI", ["sentence1", "sentence2"], "gold_label"),
        *(["entailment", "neutral", "contradiction"], MNLI, MNLI.rsplit(maxsplit=2)[0]),
    ),
    "QNLI": (
        *("QNLIv2", ["question", "sentence"], "label", ENTAILMENT),
        *("index question sentence label", "index question sentence"),
    ),
    "RTE": (
        *("RTE", ["sentence1", "sentence2"], "label", ENTAILMENT),
        *("index sentence1 sentence2 label", "index sentence1 sentence2"),
    ),
}


def splits(task):
    return MNLI_FILES if task == "MNLI" else FILES


def examples(task, split):
    """Texts, the same as they should become, and label of each example."""
    _, columns, _, labels, _, _ = LAYOUTS[task]
    for number in range(SIZES[split]):
        about = [(task, split, column, number, " ".join(SIZES)) for column in range(len(columns))]
        raw = ['{} {}: "It’s {}-{}" & {}.'.format(*words) for words in about]
        clean = ['{} {} : " it \'s {}-{} " & {} .'.format(*words).lower() for words in about]
        yield raw, clean, labels[number * 7 // 3 % len(labels)]


def cola(split):
    if split == "test":
        yield from plain("CoLA", split)
    else:
        for (sentence,), _, label in examples("CoLA", split):
            yield f"gj04\t{label}\t{'' if label == '1' else '*'}\t{sentence}"


def plain(task, split):
    """The lines of a table with a header; what no result needs is called as its column."""
    _, columns, label_column, _, labelled, unlabelled = LAYOUTS[task]
    header = (unlabelled if split.startswith("test") else labelled).split()
    yield "\t".join(header)
    for sentences, _, label in examples(task, split):
        row = {**dict(zip(columns, sentences)), label_column: label}
        yield "\t".join(row.get(name, name) for name in header)


def qqp(split):
    """Some published lines are broken in two."""
    for number, line in enumerate(plain("QQP", split)):
        yield line
        if number % 5 == 2 and split != "test":
            yield "133273\t213221\t213222\tHow is the life of a math student?"
            yield "Could you describe it?\tWhich level of prepration is enough?\t0"


def mnli(split):
    """Some pairs have no label."""
    for number, line in enumerate(plain("MNLI", split)):
        yield line
        if number % 4 == 2 and not split.startswith("test"):
            yield line.rsplit("\t", 1)[0] + "\t-"


LINES = {"CoLA": cola, "QQP": qqp, "MNLI": mnli}


def write_mrpc(folder):
    """Microsoft's corpus, with a byte order mark, and the pairs of the development set."""
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    rows = {
        split: [
            f"{label}\t{split}{number}\t{number}\t{one}\t{two}"
            for number, ((one, two), _, label) in enumerate(examples("MRPC", split))
        ]
        for split in FILES
    }
    mixed = rows["train"][:10] + rows["valid"][::-1] + rows["train"][10:]
    valid = [*rows["valid"][1::2][::-1], *rows["valid"][::2]]
    ids = ["\t".join(row.split("\t")[1:3]) for row in valid]
    for name, lines in (
        ("senteval_data/msr_paraphrase_train.txt", [header, *mixed]),
        ("senteval_data/msr_paraphrase_test.txt", [header, *rows["test"]]),
        ("mrpc_dev_ids.tsv", ids),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("".join(f"{line}\r\n" for line in lines), encoding="utf-8")


def write_archive(task, archive, edit=lambda lines: lines):
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("__MACOSX/._train.tsv", "not this one")
        zipped.writestr(f"{task}/original/train.tsv", "nor this one")
        for split, name in splits(task).items():
            lines = LINES.get(task, lambda split: plain(task, split))(split)
            text = "".join(f"{line}\n" for line in edit(list(lines)))
            zipped.writestr(f"{task}/{name}", text)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with ``published`` files and what the script made of them, ``data/glue``."""
    folder = tmp_path_factory.mktemp("glue")
    (folder / "published").mkdir()
    for task, (archive, *_) in LAYOUTS.items():
        if archive:
            write_archive(task, folder / "published" / f"{archive}.zip")
    write_mrpc(folder / "published")
    options = ["--from", "published", "--bpe-operations", OPERATIONS, "--workers", 2]
    result = run(SCRIPT, *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def load(data, task, split):
    cfg = SentencePredictionConfig(
        data=str(data / f"{task}-bin"),
        num_classes=1 if task == "STS-B" else len(LAYOUTS[task][3]),
        regression_target=task == "STS-B",
        classification_head_name="head",
        no_shuffle=True,
        seed=1,
    )
    prediction = SentencePredictionTask.setup_task(cfg)
    return prediction.source_dictionary, prediction.load_dataset(split)


@pytest.mark.parametrize(
    "task, split", [(task, split) for task in LAYOUTS for split in splits(task)]
)
def test_sentence_prediction_loads_the_examples(prepared, task, split):
    """Text, labels and order are those of the published files; test sets have no labels."""
    labels = LAYOUTS[task][3]
    dictionary, dataset = load(prepared[0] / "data" / "glue", task, split)
    expected = list(examples(task, split))
    if (task, split) == ("MRPC", "valid"):
        expected.reverse()  # the order of the corpus, not that of the list
    assert len(dataset) == len(expected)
    for example, (_, sentences, label) in zip(dataset, expected):
        text = dictionary.string(
            example["net_input.src_tokens"], "subword_nmt", include_eos=True
        ).split(" </s>")
        assert [sentence.strip() for sentence in text] == [*sentences, ""]
        if split.startswith("test"):
            assert "target" not in example
        elif task == "STS-B":
            assert example["target"] == [float(label) / 5]
        else:
            assert example["target"].tolist() == [labels.index(label)]


@pytest.mark.parametrize("task", LAYOUTS)
def test_dictionaries(prepared, task):
    """All tasks share one dictionary; classes are in a fixed order."""
    data = prepared[0] / "data" / "glue"
    folder = data / f"{task}-bin"
    columns = [f"input{number}" for number in range(len(LAYOUTS[task][1]))]
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [*columns, "label"]
    for column in columns:
        shared = (data / "vocabulary" / "dict.txt").read_bytes()
        assert (folder / column / "dict.txt").read_bytes() == shared
    assert (folder / "code").read_bytes() == (data / "vocabulary" / "code").read_bytes()
    if task != "STS-B":
        counts = Counter(label for _, _, label in examples(task, "train"))
        lines = [f"{label} {counts[label]}" for label in LAYOUTS[task][3]]
        assert (folder / "label" / "dict.txt").read_text().splitlines() == lines


def test_what_is_left_out_is_counted(prepared):
    output = prepared[1]
    assert "QQP/train.tsv: left out 12 lines that have not 6 columns" in output
    assert "MNLI/dev_matched.tsv: 8 examples; left out 2 that are labelled -" in output
    assert "CoLA/train.tsv: 30 examples\n" in output


def test_to_prepare_again_does_nothing(prepared, caplog):
    folder, _ = prepared
    data = folder / "data" / "glue"
    before = times(data)
    with caplog.at_level("INFO"):
        glue.prepare(list(LAYOUTS), folder / "published", data, None, OPERATIONS, workers=1)
    assert times(data) == before
    assert caplog.text.count("is up to date") == 4 * 8 + 1


@pytest.mark.slow
def test_killed_at_each_step_it_leaves_the_same(prepared, monkeypatch):
    options = ["--from", "published", "--bpe-operations", OPERATIONS, "--workers", 1]
    assert_survives_kills(monkeypatch, SCRIPT, *options, cwd=prepared[0])


def test_a_given_vocabulary_is_used(prepared, tmp_path):
    """The codes and dictionary of one corpus, applied to one task, with other processes."""
    folder = prepared[0]
    expected = folder / "data" / "glue" / "RTE-bin"
    options = ["--from", folder / "published" / "RTE.zip", "--out", "out", "--workers", 3]
    given = ["--bpe-codes", expected / "code", "--dict", expected / "input0" / "dict.txt"]
    result = run(SCRIPT, "RTE", *options, *given, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert contents(tmp_path / "out" / "RTE-bin") == contents(expected)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("RTE-bin", "bpe", "raw", "tokenized")
    ]


def test_a_missing_column_ends_the_script_with_one_line(tmp_path):
    """File and column are named, and nothing half-done is left."""
    write_archive("RTE", tmp_path / "RTE.zip", lambda lines: [lines[0].upper(), *lines[1:]])
    result = run(SCRIPT, "RTE", "--from", "RTE.zip", "--out", "out", "--workers", 2, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "prepare-glue.sh: error: out/raw/RTE/train.tsv has no column sentence1, sentence2, label; "
        "its columns are INDEX, SENTENCE1, SENTENCE2, LABEL"
    )
    assert "Traceback" not in result.stderr
    assert list((tmp_path / "out" / "tokenized").iterdir()) == []
