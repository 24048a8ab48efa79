"""Tables are read by their columns, and bad ones are reported."""

import pytest

from fairseq_odeformers import files
from fairseq_odeformers.corpora.glue_tables import examples, read_table, split_mrpc
from fairseq_odeformers.corpora.glue_tasks import MSR_FILES, TASKS

RTE_HEADER = "index\tsentence1\tsentence2\tlabel"


def write_lines(path, lines):
    files.write_lines(path, lines)
    return path


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
