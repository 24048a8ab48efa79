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


def test_fragments_are_left_out_of_ragged_tables(tmp_path):
    table = write_lines(tmp_path / "table.tsv", ["a\tb\tc", "1\t2\t3", "1\t2"])
    assert len(list(read_table(table, ["a", "b"]))) == 2
    assert list(read_table(table, ["a", "b"], ragged=True)) == [(2, ["1", "2"])]


def test_scores_are_divided_by_five(tmp_path):
    table = write_lines(tmp_path / "dev.tsv", ["sentence1\tsentence2\tscore", "a\tb\t2.500"])
    assert list(examples(table, TASKS["STS-B"], labelled=True)) == [["a", "b", "0.5"]]


@pytest.mark.parametrize(
    "task, lines, message",
    [
        ("RTE", [RTE_HEADER, "0\ta\tb"], "line 2 has no column label, only the first 3 of 4"),
        ("RTE", ["index\tsentence1"], "has no column sentence2, label; its columns are index, s"),
        ("RTE", [], "has no column sentence1, sentence2, label; its columns are $"),
        ("RTE", [RTE_HEADER, "0\ta\tb\tneutral"], "line 2: label is 'neutral', not one of ent"),
        ("RTE", [RTE_HEADER], "has no examples"),
        ("MNLI", ["sentence1\tsentence2\tgold_label", "a\tb\t-"], "has no examples"),
        *(
            ("STS-B", ["sentence1\tsentence2\tscore", f"a\tb\t{score}"], f"score is '{score}'")
            for score in ("5.001", "-1", "nan", "good", "")
        ),
    ],
)
def test_bad_tables_are_named(task, lines, message, tmp_path):
    table = write_lines(tmp_path / "table.tsv", lines)
    with pytest.raises(ValueError, match=f"table.tsv.* ?{message}"):
        list(examples(table, TASKS[task], labelled=True))


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
