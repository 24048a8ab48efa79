"""``scripts/prepare-ptb.sh`` on a small archive that has the layout of the published one."""

import io
import tarfile

import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from script_helpers import assert_survives_kills, contents, run, times

from fairseq_odeformers.corpora.ptb import prepare

SCRIPT = "prepare-ptb.sh"
TEXTS = {
    "train": ["the <unk> rose N points", "<unk> of the N", "the end"] * 50,
    "valid": ["the points of <unk> rose", "a N"],
    "test": ["the end", "<unk>", "no end"],
}
WORDS = ["the", "<unk>", "N", "end", "of", "points", "rose"]  # by frequency, then by alphabet


def write_archive(path):
    """The words and, before them, the characters, with spaces around each line."""
    with tarfile.open(path, "w:gz") as archive:
        for prefix, separator in (("char.", "_"), ("", " ")):
            for split, text in TEXTS.items():
                lines = [f" {line.replace(' ', separator)} \n" for line in text]
                content = "".join(lines).encode()
                info = tarfile.TarInfo(f"./simple-examples/data/ptb.{prefix}{split}.txt")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with ``simple-examples.tgz``, what the script made of it, and said."""
    folder = tmp_path_factory.mktemp("ptb")
    write_archive(folder / "simple-examples.tgz")
    result = run(SCRIPT, "--from", "simple-examples.tgz", "--workers", 2, cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, folder / "data" / "ptb" / "data-bin", result.stdout


def test_the_dictionary_has_the_words_of_the_training_text(prepared):
    """Once each, fairseq's own symbols included, and is filled up to a multiple of 8."""
    dictionary = Dictionary.load(str(prepared[1] / "dict.txt"))
    words = [word for word in WORDS if word != "<unk>"]
    fill = [f"madeupword000{number}" for number in range(6)]
    assert dictionary.symbols == ["<s>", "<pad>", "</s>", "<unk>", *words, *fill]


@pytest.mark.parametrize("split", TEXTS)
def test_data_hold_the_text_with_one_kind_of_unknown_word(prepared, split):
    dictionary = Dictionary.load(str(prepared[1] / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(prepared[1] / split), dictionary)
    expected = [
        [word if word in WORDS else "<unk>" for word in line.split()] + ["</s>"]
        for line in TEXTS[split]
    ]
    assert [[dictionary[index] for index in ids] for ids in dataset] == expected
    unknown = sum(line.count("<unk>") for line in expected)
    assert sum((ids == dictionary.unk()).sum().item() for ids in dataset) == unknown > 0


@pytest.mark.parametrize("split", TEXTS)
def test_language_modeling_predicts_every_word_and_every_end_once(prepared, split):
    cfg = LanguageModelingConfig(
        data=str(prepared[1]), tokens_per_sample=8, dataset_impl="mmap", use_plasma_view=False
    )
    task = LanguageModelingTask.setup_task(cfg)
    task.load_dataset(split)
    blocks = [block["target"].tolist() for block in task.dataset(split)]
    targets = [task.dictionary[index] for block in blocks for index in block]
    assert len(targets) == sum(len(line.split()) + 1 for line in TEXTS[split])
    assert targets.count("</s>") == len(TEXTS[split])


def test_sizes_are_said_and_compared(prepared):
    output = prepared[2]
    assert "train: 150 sentences, 550 words" in output
    assert "train: the published text has 42,068 sentences and 887,521 words" in output
    assert "data/ptb/data-bin is ready for fairseq-train" in output


def test_to_prepare_again_does_nothing(prepared, caplog):
    folder, data_bin, _ = prepared
    before = times(data_bin.parent)
    with caplog.at_level("INFO"):
        prepare(folder / "simple-examples.tgz", data_bin.parent, workers=1)
    assert times(data_bin.parent) == before
    assert caplog.text.count("is up to date") == 2


def test_the_result_does_not_depend_on_workers(prepared, tmp_path):
    folder, data_bin, _ = prepared
    again = prepare(folder / "simple-examples.tgz", tmp_path, workers=1)
    assert contents(again) == contents(data_bin)


@pytest.mark.slow
def test_killed_at_each_step_it_leaves_the_same(prepared, monkeypatch):
    options = ["--from", "simple-examples.tgz", "--workers", 1]
    assert_survives_kills(monkeypatch, SCRIPT, *options, cwd=prepared[0])


def test_a_missing_text_ends_the_script_with_one_line(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "train.txt").write_text("the end\n")
    result = run(SCRIPT, "--from", "texts", "--out", "out", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "prepare-ptb.sh: error: texts has no ptb.valid.txt or valid.txt"
    )
    assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]
