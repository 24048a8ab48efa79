"""Preparation of GLUE resumes, and bad options end it before it starts."""

import zipfile

import pytest
from script_helpers import contents, refusal

from fairseq_odeformers.corpora import glue
from fairseq_odeformers.files import write_lines

RTE = {
    "train.tsv": [f"{n}\tIs it {n}?\tIt is {n}.\tentailment" for n in range(600)],
    "dev.tsv": ["0\tIs it 2?\tIt is 1.\tnot_entailment"],
    "test.tsv": ["0\tIs it 5?\tIt is 6.", "1\tIs it?\t"],
}
COLA = {
    "train.tsv": ["gj04\t1\t\tIt is one.", "gj04\t0\t*\tOne is it is."],
    "dev.tsv": ["gj04\t1\t\tIt is two."],
    "test.tsv": ["index\tsentence", "0\tIt is three."],
}
RTE_HEADER = "index\tsentence1\tsentence2\tlabel"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """An archive of two tasks, whose files have the same names."""
    path = tmp_path_factory.mktemp("archive") / "glue.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for name, lines in RTE.items():
            header = RTE_HEADER.replace("\tlabel", "") if name == "test.tsv" else RTE_HEADER
            zipped.writestr(f"glue_data/RTE/{name}", "\n".join([header, *lines, ""]))
        for name, lines in COLA.items():
            zipped.writestr(f"glue_data/CoLA/{name}", "\n".join([*lines, ""]))
    return path


def prepare(archive, out, workers=2):
    return glue.prepare(["RTE", "CoLA"], archive, out, None, bpe_operations=30, workers=workers)


@pytest.fixture(scope="module")
def prepared(archive, tmp_path_factory):
    """What the preparation leaves."""
    out = tmp_path_factory.mktemp("prepared")
    prepare(archive, out)
    return out


def test_the_result_does_not_depend_on_interruptions_and_workers(
    archive, prepared, tmp_path, monkeypatch
):
    calls = []

    def interrupt(*argv):
        calls.append(argv)
        if len(calls) == 3:  # the labels of the first task
            raise KeyboardInterrupt
        fairseq_preprocess(*argv)

    fairseq_preprocess = glue.fairseq_preprocess
    with monkeypatch.context() as patch:
        patch.setattr(glue, "fairseq_preprocess", interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare(archive, tmp_path / "out", workers=1)
    assert not list((tmp_path / "out").glob("RTE-bin*"))

    with monkeypatch.context() as patch:
        patch.setattr(glue, "tokenize", None)  # what was done is not done again
        patch.setattr(glue, "learn_vocabulary", None)
        results = prepare(archive, tmp_path / "out", workers=1)
    assert results == [tmp_path / "out" / "RTE-bin", tmp_path / "out" / "CoLA-bin"]
    assert contents(tmp_path / "out") == contents(prepared)


def test_each_task_has_its_own_files(prepared):
    tokenized = prepared / "tokenized"
    assert (tokenized / "CoLA" / "train.input0").read_text() == "it is one .\none is it is .\n"
    assert (tokenized / "RTE" / "test.input1").read_text() == "it is 6 .\n\n"


def test_tables_of_mrpc_are_preferred(tmp_path):
    """A prepared split, as older tools make it, is taken as it is."""
    (tmp_path / "MRPC").mkdir()
    for name in ("train", "dev", "test"):
        lines = ["#2 String\t#1 String\tQuality", f"it is {name}\tthis is {name}\t1"]
        write_lines(tmp_path / "MRPC" / f"{name}.tsv", lines)
    glue.prepare(["MRPC"], tmp_path, tmp_path / "out", None, bpe_operations=5, workers=1)
    tokenized = tmp_path / "out" / "tokenized" / "MRPC"
    assert (tokenized / "valid.input0").read_text() == "this is dev\n"
    assert (tokenized / "test.input1").read_text() == "it is test\n"


@pytest.mark.parametrize(
    "codes, dictionary, message",
    [
        ("#version: 0.2\na b c\n", "a 1\n", "code has no byte-pair codes of subword-nmt"),
        ("#version: 0.2\n", "a 1\n", "code has no byte-pair codes of subword-nmt"),
        ("#version: 0.2\na b\n", "a\n", r"dict.txt, line 1: no dictionary of fairseq \(Incorrect"),
        (
            "#version: 0.2\na b\n",
            "a 1\na 2\n",
            r"dict.txt, line 2: no dictionary of fairseq \(Duplicate",
        ),
    ],
)
def test_a_bad_vocabulary_is_refused_before_work_starts(
    codes, dictionary, message, archive, tmp_path
):
    (tmp_path / "code").write_text(codes)
    (tmp_path / "dict.txt").write_text(dictionary)
    vocabulary = tmp_path / "code", tmp_path / "dict.txt"
    with pytest.raises(ValueError, match=message):
        glue.prepare(["RTE"], archive, tmp_path / "out", vocabulary, bpe_operations=30, workers=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        (["wnli"], "TASK wnli: choose from CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE"),
        (["--from", "absent"], "--from absent: no such file or folder"),
        (["--dict", "absent"], "--dict absent: no such file or folder"),
        (["--dict", "dict.txt"], "--bpe-codes and --dict belong together; give both or neither"),
        (
            ["--bpe-codes", "code", "--dict", "dict.txt", "--bpe-operations", "5"],
            "--bpe-operations is for learning codes; leave it out with --bpe-codes",
        ),
        (
            ["--from", ".", "--out", "."],
            "--from . overlaps raw, made by this script; choose another --out",
        ),
        (["--workers", "0"], "argument --workers: invalid positive_int value: '0'"),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch, capsys):
    for name in ("code", "dict.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    line = refusal(glue.main, options, monkeypatch, capsys)
    assert line == f"prepare-glue.sh: error: {message}"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["code", "dict.txt"]
