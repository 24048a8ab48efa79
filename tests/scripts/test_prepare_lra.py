"""``scripts/prepare-lra.sh`` on small archives that have the layout of the published ones."""

import pytest
from fairseq.data.encoders.bytes import Bytes
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from lra_release import ARCHIVES, listops, picture, write_archive
from script_helpers import assert_survives_kills, run

SCRIPT = "prepare-lra.sh"
CLASSES = {"listops": 10, "text": 2, "retrieval": 2, "pathfinder": 2, "image": 10}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """What the script makes of the archives, ``data/lra``."""
    folder = tmp_path_factory.mktemp("lra")
    (folder / "published").mkdir()
    for name, files in ARCHIVES.items():
        write_archive(folder / "published" / name, files())
    result = run(SCRIPT, "--from", "published", "--workers", 2, cwd=folder)
    assert result.returncode == 0, result.stderr
    for task in CLASSES:
        assert f"data/lra/{task}-bin is ready for fairseq-train" in result.stdout
    return folder / "data" / "lra"


def load(data, task, split):
    """Text and class of each example, as fairseq's task reads them."""
    cfg = SentencePredictionConfig(
        data=str(data / f"{task}-bin"),
        num_classes=CLASSES[task],
        regression_target=False,
        classification_head_name="head",
        no_shuffle=True,
        seed=1,
    )
    prediction = SentencePredictionTask.setup_task(cfg)
    dictionary, names = prediction.source_dictionary, prediction.label_dictionary
    return [
        (
            dictionary.string(example["net_input.src_tokens"], include_eos=True),
            names[int(example["target"]) + names.nspecial],
        )
        for example in prediction.load_dataset(split)
    ]


def test_listops(prepared):
    for split, size in (("train", 8), ("valid", 3), ("test", 2)):
        assert load(prepared, "listops", split) == [
            (f"[SM {n} 7 ] </s>", str((n + 7) % 10)) for n in range(size)
        ]


def text(string):
    """What the names of the bytes before each end stand for."""
    return [Bytes.decode(part) for part in string.split("</s>")]


def test_text(prepared):
    """Bytes are kept as they are; the test set is for validation, too."""
    examples = load(prepared, "text", "train")
    assert [(text(string), label) for string, label in examples] == [
        ([f"train {label}<br />\t{n}é", ""], label)
        for label, size in (("neg", 4), ("pos", 3))
        for n in range(size)
    ]
    assert load(prepared, "text", "valid") == load(prepared, "text", "test")
    assert len(load(prepared, "text", "test")) == 4


def test_retrieval(prepared):
    for split, name, size in (("train", "train", 7), ("valid", "eval", 3), ("test", "test", 4)):
        examples = load(prepared, "retrieval", split)
        assert [(text(string), label) for string, label in examples] == [
            ([f'b"{name}\\n"', f"b'é {n}'", ""], str(n % 2)) for n in range(size)
        ]


def test_pathfinder(prepared):
    """Each image is in one split, with its class; intensities are symbols, and nothing follows."""
    examples = [load(prepared, "pathfinder", split) for split in ("train", "valid", "test")]
    assert [len(split) for split in examples] == [24, 3, 3]
    assert sorted(example for split in examples for example in split) == sorted(
        (" ".join(map(str, picture(batch, number).flatten())), str(number % 2))
        for batch in (0, 2, 10)
        for number in range(10)
    )


def test_image(prepared):
    train, valid, test = (load(prepared, "image", split) for split in ("train", "valid", "test"))
    classes = ("airplane", "automobile", "bird", "cat")
    images = [(" ".join([str(n)] * 1024), name) for n, name in enumerate(classes)]
    assert len(train) == 18
    assert sorted(train + valid) == sorted(images * 5)
    assert test == images[:3]


@pytest.mark.parametrize("task", CLASSES)
def test_symbols_of_bytes_and_intensities(prepared, task):
    """All 256 have a symbol without white space, whether or not they occur."""
    for path in (prepared / f"{task}-bin").glob("input*/dict.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) == (15 if task == "listops" else 256)
        assert all(len(line.split()) == 2 for line in lines)


@pytest.mark.slow
def test_killed_at_each_step_it_leaves_the_same(prepared, monkeypatch):
    options = ["--from", "published", "--workers", 1]
    assert_survives_kills(monkeypatch, SCRIPT, *options, cwd=prepared.parents[1])


def test_a_line_that_does_not_parse_ends_the_script_with_one_line(tmp_path):
    files = {name: data.replace(b"[SM 3", b"[SUM 3") for name, data in listops().items()}
    write_archive(tmp_path / "lra_release.gz", files)
    result = run(SCRIPT, "listops", "--from", "lra_release.gz", "--out", "out", cwd=tmp_path)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith(
        "prepare-lra.sh: error: listops: out/raw/listops/basic_train.tsv, line 5: "
    )
    assert "[SUM" in last and "expected" in last
    assert "Traceback" not in result.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["raw"]
