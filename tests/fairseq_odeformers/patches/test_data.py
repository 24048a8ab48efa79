"""Labels of fairseq's ``sentence_prediction`` and of ``long_range_arena``: one word, one class.

The data set of the former does not know whose model it is for: our models look before they are
built. Paths of data are no commands.
"""

from argparse import Namespace

import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from helpers import make_model
from make_checkpoints import make_dictionary, write_rows
from omegaconf import MISSING

from fairseq_odeformers.tasks.long_range_arena import LongRangeArenaConfig, LongRangeArenaTask

EOS, WORDS = 2, ["bad", "good", "very"]


@pytest.fixture
def folder(tmp_path):
    """Two texts, each with the label ``bad``."""
    (tmp_path / "input0").mkdir()
    (tmp_path / "label").mkdir()
    make_dictionary(5).save(str(tmp_path / "input0" / "dict.txt"))
    labels = Dictionary()
    for word in WORDS:
        labels.add_symbol(word)
    labels.save(str(tmp_path / "label" / "dict.txt"))
    write_rows(tmp_path / "input0" / "valid", [[4, 5, EOS], [6, 5, EOS]])
    write_labels(tmp_path, [4, EOS], [4, EOS])
    return tmp_path


def write_labels(folder, *rows):
    write_rows(folder / "label" / "valid", rows)


def set_up(config, task, folder, **options):
    values = {**vars(config()), "data": str(folder), "seed": 1, "regression_target": False}
    values = {name: value for name, value in {**values, **options}.items() if value != MISSING}
    return task.setup_task(Namespace(**values))


TASKS = {
    "sentence_prediction": (SentencePredictionConfig, SentencePredictionTask, {"num_classes": 3}),
    "long_range_arena": (LongRangeArenaConfig, LongRangeArenaTask, {"lra_task": "text"}),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_label_of_two_words_is_refused(folder, name):
    config, task, options = TASKS[name]
    write_labels(folder, [4, EOS], [6, 5, EOS])
    message = r"label/valid, example 2: the label 'very good' has 2 words; .*'very_good'"
    with pytest.raises(ValueError, match=message):
        task = set_up(config, task, folder, **options)
        make_model("transformer_classifier", task=task)
        task.load_dataset("valid")


@pytest.mark.parametrize("name", TASKS)
def test_labels_of_one_word_are_read(folder, name):
    config, task, options = TASKS[name]
    task = set_up(config, task, folder, **options)
    task.load_dataset("valid")
    assert int(task.dataset("valid")[1]["target"]) == 0


@pytest.mark.parametrize("number", [2, 4])
def test_a_wrong_number_of_classes_is_refused(folder, number, caplog):
    config, task, _ = TASKS["sentence_prediction"]
    message = f"--num-classes {number}: {folder} has 3: bad, good, very"
    task = set_up(config, task, folder, num_classes=number)
    with pytest.raises(ValueError, match=message):
        make_model("transformer_classifier", task=task)
    task.load_dataset("valid")  # for a model of fairseq
    assert message in caplog.text


def test_no_shell_sees_the_path_of_a_fasta_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a; touch trace; b.fasta").write_text(">1\nMKV\n")
    with pytest.raises(ValueError, match="b.fasta has no index"):
        data_utils.load_indexed_dataset("a; touch trace; b", Dictionary())
    assert not (tmp_path / "trace").exists()
