"""``scripts/prepare-text-classification.sh`` on small tables."""

import pytest
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from script_helpers import assert_survives_kills, contents, run

from fairseq_odeformers.corpora.text_classification import prepare

SCRIPT = "prepare-text-classification.sh"
NAMES = ["good", "bad"]
TRAIN = [f"{NAMES[n % 2]}\tWord{n} is a {NAMES[n % 2]} one,\tthat is it." for n in range(60)]
TEST = ["good\tIt is, a ONE", "bad\t", "bad\tword is good"]
EXPECTED = [("good", "it is , a one"), ("bad", ""), ("bad", "word is good")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with ``train.tsv`` and ``test.tsv``, and what the script made of them, ``data``."""
    folder = tmp_path_factory.mktemp("tsv")
    for name, lines in (("train.tsv", TRAIN), ("test.tsv", TEST)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    result = run(SCRIPT, "tsv", "--from", ".", "--vocab-size", 60, "--workers", 1, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "train: 54 texts (27 bad, 27 good)" in result.stdout
    return folder


def load(data_bin, split):
    cfg = SentencePredictionConfig(
        data=str(data_bin),
        num_classes=2,
        regression_target=False,
        classification_head_name="head",
        no_shuffle=True,
        seed=1,
    )
    task = SentencePredictionTask.setup_task(cfg)
    return task, task.load_dataset(split)


def test_sentence_prediction_loads_the_examples(folder):
    """With as many symbols as there are pieces, since the task adds its ``<mask>``."""
    data_bin = folder / "data" / "tsv" / "data-bin"
    task, test = load(data_bin, "test")
    labels = task.label_dictionary
    for example, (name, text) in zip(test, EXPECTED):
        tokens = task.source_dictionary.string(example["net_input.src_tokens"], include_eos=True)
        assert tokens.replace(" ##", "").split() == [*text.split(), "</s>"]
        assert labels.symbols[labels.nspecial + example["target"].item()] == name
    assert len(test) == len(TEST)
    assert [len(load(data_bin, split)[1]) for split in ("train", "valid")] == [54, 6]
    pieces = (data_bin / "vocab.txt").read_text().splitlines()
    assert len(task.source_dictionary) == len(pieces) == 60


def test_the_result_does_not_depend_on_workers(folder, tmp_path):
    data_bin = prepare("tsv", folder, tmp_path, vocab_size=60)
    assert contents(data_bin) == contents(folder / "data" / "tsv" / "data-bin")


@pytest.mark.slow
def test_killed_at_each_step_it_leaves_the_same(folder, monkeypatch):
    options = ["tsv", "--from", ".", "--vocab-size", 60, "--workers", 1]
    assert_survives_kills(monkeypatch, SCRIPT, *options, cwd=folder)


def test_an_unknown_class_ends_the_script_with_one_line(tmp_path):
    """File, line and classes are named, and nothing half-done is left."""
    (tmp_path / "train.tsv").write_text("".join(f"{line}\n" for line in TRAIN))
    (tmp_path / "test.tsv").write_text("good\tone\nfair\ttwo\n")
    result = run(SCRIPT, "tsv", "--from", ".", "--out", "out", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "prepare-text-classification.sh: error: test.tsv, line 2: class 'fair' is none of bad, good"
    )
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
