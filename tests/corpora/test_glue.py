"""Tables are read by their columns, bad ones are reported, and preparation resumes."""

import zipfile

import pytest
from script_helpers import contents, refusal

from fairseq_odeformers.corpora import glue
from fairseq_odeformers.corpora.glue import MSR_FILES, TASKS, examples, read_table, split_mrpc

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


def write_lines(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


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


def test_columns_are_found_by_name(tmp_path):
    table = write_lines(tmp_path / "table.tsv", ["\ufeffa\tb\tc", '1\t"2\t3\r', '4\t5"\t\r'])
    assert list(read_table(table, ["c", "a"])) == [(2, ["3", "1"]), (3, ["", "4"])]
    assert list(read_table(table, ["y"], header="xyz"))[1:] == [(2, ['"2']), (3, ['5"'])]


def test_a_line_that_is_too_short_is_named(tmp_path):
    table = write_lines(tmp_path / "table.tsv", ["a\tb\tc", "1\t2\t3", "1\t2"])
    message = "table.tsv, line 3 has no column c, only the first 2 of 3"
    with pytest.raises(ValueError, match=message):
        list(read_table(table, ["a", "c"]))
    assert len(list(read_table(table, ["a", "b"]))) == 2
    assert list(read_table(table, ["a", "b"], ragged=True)) == [(2, ["1", "2"])]


def test_a_missing_column_is_named(tmp_path):
    table = write_lines(tmp_path / "table.tsv", ["a\tb", "1\t2"])
    with pytest.raises(ValueError, match="table.tsv has no column c, d; its columns are a, b"):
        list(read_table(table, ["c", "a", "d"]))
    with pytest.raises(ValueError, match="table.tsv has no column a; its columns are $"):
        list(read_table(write_lines(table, []), ["a"]))


@pytest.mark.parametrize("score", ["5.001", "-1", "nan", "good", ""])
def test_a_bad_score_is_named(score, tmp_path):
    lines = ["sentence1\tsentence2\tscore", "a\tb\t5.000", f"a\tb\t{score}"]
    table = examples(write_lines(tmp_path / "dev.tsv", lines), TASKS["STS-B"], labelled=True)
    assert next(table) == ["a", "b", "1.0"]
    message = f"dev.tsv, line 3: score is '{score}', not a number from 0 to 5"
    with pytest.raises(ValueError, match=message):
        next(table)


def test_a_label_of_another_task_is_named(tmp_path):
    table = write_lines(tmp_path / "train.tsv", [RTE_HEADER, "0\ta\tb\tneutral"])
    message = "train.tsv, line 2: label is 'neutral', not one of entailment, not_entailment"
    with pytest.raises(ValueError, match=message):
        list(examples(table, TASKS["RTE"], labelled=True))


def test_a_table_without_examples_is_an_error(tmp_path):
    lines = ["sentence1\tsentence2\tgold_label", "a\tb\t-"]
    table = write_lines(tmp_path / "dev_matched.tsv", lines)
    with pytest.raises(ValueError, match="dev_matched.tsv has no examples"):
        list(examples(table, TASKS["MNLI"], labelled=True))


def write_msr(folder, dev_ids):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    for name, lines in zip(
        MSR_FILES, ([header, "1\t10\t11\ta\tb", "0\t20\t21\tc\td"], [header], dev_ids)
    ):
        write_lines(folder / name, lines)


def test_mrpc_is_split_by_the_list_of_pairs(tmp_path):
    write_msr(tmp_path, dev_ids=["20\t21"])
    split_mrpc(tmp_path)
    header = "Quality\t#1 String\t#2 String\n"
    assert (tmp_path / "train.tsv").read_text() == header + "1\ta\tb\n"
    assert (tmp_path / "dev.tsv").read_text() == header + "0\tc\td\n"


def test_a_list_of_other_pairs_is_an_error(tmp_path):
    write_msr(tmp_path, dev_ids=["11\t10"])
    with pytest.raises(ValueError, match="mrpc_dev_ids.tsv names no pair of msr_paraphrase_train"):
        split_mrpc(tmp_path)


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
        ("#version: 0.2\na b\n", "a\n", "dict.txt is no dictionary of fairseq: Incorrect"),
        ("#version: 0.2\na b\n", "a 1\na 2\n", "dict.txt is no dictionary of fairseq: Duplicate"),
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
