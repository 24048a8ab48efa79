"""``scripts/prepare-*.sh`` on small data of the published layout: fairseq opens what they leave."""

import subprocess

import pytest
from fairseq.data import Dictionary, data_utils
from published import LRA, iwslt14, multi30k, ptb, write_archive, write_folder, write_wmt14
from script_helpers import SCRIPTS, assert_survives_kills, run

RTE = "index\tsentence1\tsentence2\tlabel\n" + "0\tOne is two.\tOne is.\tentailment\n" * 5
REVIEWS = "".join(f"{'good' if n % 2 else 'bad'}\tword {n} of many\n" for n in range(40))
CAPTIONS = multi30k(train=40, val=5, test_2016_flickr=6)


def write_rte(folder):
    test = RTE.replace("\tlabel", "").replace("\tentailment", "")
    write_folder(folder / "RTE", {"train.tsv": RTE.encode(), "test.tsv": test.encode()})
    (folder / "RTE" / "dev.tsv").write_text(RTE)


def write_lra(folder):
    for name, files in LRA.items():
        write_archive(folder / name, files())


# A function that writes the data, the script's options, and the size of some of its results.
CORPORA = {
    "iwslt14": (
        lambda folder: write_archive(folder / "de-en.tgz", iwslt14()),
        ["--bpe-operations", 40],
        {"data-bin/train.de-en.de": 87},
    ),
    "multi30k": (
        lambda folder: write_folder(folder, CAPTIONS),
        ["--bpe-operations", 20],
        {"data-bin/train.de-en.en": 40},
    ),
    "wmt14": (write_wmt14, ["en-de", "--bpe-operations", 60], {"data-bin/train.en-de.de": 91}),
    "glue": (write_rte, ["RTE", "--bpe-operations", 5], {"RTE-bin/input1/train": 5}),
    "lra": (
        write_lra,
        [],
        {"listops-bin/input0/train": 8, "text-bin/label/train": 7, "retrieval-bin/input1/train": 7}
        | {"pathfinder-bin/input0/train": 24, "image-bin/input0/test": 3},
    ),
    "ptb": (
        lambda folder: write_archive(folder / "simple-examples.tgz", ptb()),
        [],
        {"data-bin/train": 150},
    ),
    "text-classification": (
        lambda folder: write_folder(
            folder, {"train.tsv": REVIEWS.encode(), "test.tsv": REVIEWS.encode()}
        ),
        ["tsv", "--vocab-size", 60],
        {"data-bin/input0/train": 36},
    ),
}


def test_each_script_is_tested():
    assert {path.stem for path in SCRIPTS.glob("prepare-*")} == {f"prepare-{n}" for n in CORPORA}


@pytest.mark.parametrize("corpus", CORPORA)
def test_fairseq_opens_what_a_script_leaves(corpus, tmp_path):
    write, options, expected = CORPORA[corpus]
    write(tmp_path / "published")
    options = [*options, "--from", "published", "--out", "out"]
    assert "ready for fairseq-train" in run(f"prepare-{corpus}.sh", *options, cwd=tmp_path)
    for name, size in expected.items():
        path = tmp_path / "out" / name
        [dictionary, *_] = path.parent.glob("dict*.txt")
        dataset = data_utils.load_indexed_dataset(str(path), Dictionary.load(str(dictionary)))
        assert len(dataset) == size


def test_killed_at_each_step_it_leaves_the_same(tmp_path, monkeypatch):
    write_folder(tmp_path / "raw", CAPTIONS)
    options = ["--from", "raw", "--bpe-operations", 20, "--workers", 1]
    assert_survives_kills(monkeypatch, "prepare-multi30k.sh", *options, cwd=tmp_path)


def test_a_damaged_archive_ends_a_script_with_one_line(tmp_path):
    archive = write_archive(tmp_path / "cut.tgz", iwslt14())
    archive.write_bytes(archive.read_bytes()[:1000])
    with pytest.raises(subprocess.CalledProcessError) as error:
        run("prepare-iwslt14.sh", "--from", "cut.tgz", "--out", "out", cwd=tmp_path)
    assert error.value.returncode == 1
    last = error.value.stdout.splitlines()[-1]
    assert last.startswith("odeformers prepare iwslt14: error: cut.tgz is damaged")
    assert "Traceback" not in error.value.stdout
