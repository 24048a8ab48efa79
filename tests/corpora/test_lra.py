"""Each task has its published examples, data are found where they lie, and preparation resumes."""

import pytest
import torch
from fairseq.data.encoders.bytes import Bytes
from published import LRA, listops, picture, retrieval, write_archive, write_folder
from script_helpers import contents, sentence_prediction, times

from fairseq_odeformers.corpora import lra
from fairseq_odeformers.corpora.lra import TASKS, locate, prepare, split_randomly


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    for name, files in LRA.items():
        write_archive(folder / name, files())
    return folder


@pytest.fixture(scope="module")
def prepared(archives, tmp_path_factory):
    out = tmp_path_factory.mktemp("prepared")
    assert prepare(list(TASKS), archives, out) == [out / f"{task}-bin" for task in TASKS]
    return out


def load(data, task, split):
    """Text and class of each example, as fairseq's task reads them."""
    prediction, dataset = sentence_prediction(data / f"{task}-bin", split, len(TASKS[task].classes))
    dictionary, names = prediction.source_dictionary, prediction.label_dictionary
    return [
        (
            dictionary.string(example["net_input.src_tokens"], include_eos=True),
            names[int(example["target"]) + names.nspecial],
        )
        for example in dataset
    ]


def text(string):
    """The bytes that the symbols before each end name."""
    return [Bytes.decode(part) for part in string.split("</s>")]


def test_listops(prepared):
    for split, size in (("train", 8), ("valid", 3), ("test", 2)):
        assert load(prepared, "listops", split) == [
            (f"[SM {n} 7 ] </s>", str((n + 7) % 10)) for n in range(size)
        ]


def test_text(prepared):
    """Bytes are kept as they are; the test set is for validation, too."""
    examples = load(prepared, "text", "train")
    assert [(text(string), label) for string, label in examples] == [
        ([f"train {label}<br />\t{n}é", ""], label)
        for label, size in (("neg", 4), ("pos", 3))
        for n in range(size)
    ]
    assert (prepared / "text-bin" / "label" / "dict.txt").read_text() == "neg 1\npos 1\n"
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


@pytest.mark.parametrize("task", TASKS)
def test_symbols_of_bytes_and_intensities(prepared, task):
    """All 256 have a symbol without white space, whether or not they occur."""
    for path in (prepared / f"{task}-bin").glob("input*/dict.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) == (15 if task == "listops" else 256)
        assert all(len(line.split()) == 2 for line in lines)


def results(out):
    """The data sets below a folder, without how they were made."""
    return {
        path: content
        for path, content in contents(out).items()
        if path.parts[0].endswith("-bin") and path.name != "recipe.json"
    }


def test_unpacked_data_are_found_and_preferred(prepared, tmp_path):
    for name, files in LRA.items():
        write_folder(tmp_path / "source", files())
        (tmp_path / "source" / name).write_bytes(b"not looked at")
    prepare(list(TASKS), tmp_path / "source", tmp_path / "out")
    assert results(tmp_path / "out") == results(prepared)
    assert not (tmp_path / "out" / "raw").exists()


@pytest.mark.parametrize(
    "task, folder",
    [
        ("listops", "lra_release/lra_release/listops-1000"),
        ("text", "aclImdb"),
        ("retrieval", "lra_release/lra_release"),
        ("pathfinder", "lra_release"),
        ("image", "cifar-10-batches-bin"),
    ],
)
def test_the_folder_of_a_task_may_be_given(task, folder, prepared, tmp_path):
    for files in LRA.values():
        write_folder(tmp_path, files())
    prepare([task], tmp_path / folder, tmp_path / "out")
    expected = {path: data for path, data in results(prepared).items() if task in path.parts[0]}
    assert results(tmp_path / "out") == expected


def test_other_files_are_another_result(prepared, tmp_path):
    """An archive may have any name; what was made of it is kept as long as it is the same."""
    archive = write_archive(tmp_path / "data.tar", listops())
    [folder] = prepare(["listops"], archive, tmp_path / "out")
    assert results(tmp_path / "out").items() <= results(prepared).items()
    before = times(folder)
    prepare(["listops"], archive, tmp_path / "out")
    assert times(folder) == before
    files = {name: content.replace(b" 7 ", b" 7 0 ") for name, content in listops().items()}
    write_archive(archive, files)
    prepare(["listops"], archive, tmp_path / "out")
    assert times(folder) != before


def test_published_archives_are_fetched(tmp_path, archives, prepared, monkeypatch):
    """Each once, and checked where its SHA-256 is known."""
    fetched = []

    def download(url, path, checksum):
        if not path.exists():
            fetched.append((url, checksum))
            path.parent.mkdir(exist_ok=True)
            path.write_bytes((archives / path.name).read_bytes())

    monkeypatch.setattr(lra, "download", download)
    prepare(list(TASKS), None, tmp_path)
    assert results(tmp_path) == results(prepared)
    assert sorted(checksum is None for _, checksum in fetched) == [False, False, True]


@pytest.mark.parametrize("size", [30, 57, 1000])
def test_random_splits(size):
    """Tenths that do not overlap, drawn as S4 does."""
    train, valid, test = split_randomly(list(range(size)), 3)
    assert len(valid) == len(test) == size // 10
    order = torch.randperm(size, generator=torch.Generator().manual_seed(42)).tolist()
    assert [*train, *valid, *test] == order


def test_other_tasks_are_prepared_when_some_cannot_be(tmp_path):
    files = {**LRA["lra_release.gz"](), **LRA["cifar-10-binary.tar.gz"]()}
    files = {name: content for name, content in files.items() if "aan" not in name}
    files["cifar-10-batches-bin/data_batch_3.bin"] = b"\x0a" + bytes(3072)
    archive = write_archive(tmp_path / "data.tar", files)
    with pytest.raises(ValueError) as caught:
        prepare(list(TASKS), archive, tmp_path / "out")
    text, retrieval, image = str(caught.value).split("; ")
    assert text.startswith(f"text: {archive} has no test/neg/")
    assert retrieval.startswith(f"retrieval: {archive} has no new_aan_pairs.eval.tsv")
    assert image.startswith(f"image: {tmp_path}/out/raw/image/data_batch_3.bin, record 1")
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["listops-bin", "pathfinder-bin", "raw"]


def test_missing_data_are_named(tmp_path):
    with pytest.raises(ValueError, match="has no train/pos and no aclImdb_v1.tar.gz"):
        locate(tmp_path, TASKS["text"])


def test_a_split_without_examples_is_an_error(tmp_path):
    files = {**retrieval(), "lra_release/lra_release/tsv_data/new_aan_pairs.eval.tsv": b""}
    archive = write_archive(tmp_path / "lra_release.gz", files)
    with pytest.raises(ValueError, match="retrieval: .*/raw/retrieval has no examples for valid"):
        prepare(["retrieval"], archive, tmp_path / "out")
    assert not list((tmp_path / "out").glob("retrieval-bin*"))
