"""Each task has its published examples, data are found where they lie, bad ones are named."""

import struct
import zlib

import numpy as np
import pytest
import torch
from fairseq.data.encoders.bytes import Bytes
from published import (
    LRA,
    listops,
    pathfinder,
    picture,
    png,
    retrieval,
    write_archive,
    write_folder,
)
from script_helpers import contents, sentence_prediction, times

from fairseq_odeformers import cli
from fairseq_odeformers.corpora import archives as archives_module
from fairseq_odeformers.corpora.archives import read_files
from fairseq_odeformers.corpora.lra import (
    PATHFINDER,
    PATHFINDER_FILES,
    TASKS,
    aan_examples,
    cifar10_examples,
    grey,
    pathfinder_examples,
    prepare,
    split_randomly,
)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    for name, files in LRA.items():
        write_archive(folder / name, files())
    return folder


@pytest.fixture(scope="module")
def prepared(archives, tmp_path_factory):
    out = tmp_path_factory.mktemp("prepared")
    cli.main(["prepare", "lra", "--from", str(archives), "--out", str(out)])
    assert {path.name for path in out.glob("*-bin")} == {f"{task}-bin" for task in TASKS}
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

    monkeypatch.setattr(archives_module, "download", download)
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


def test_a_split_without_examples_is_an_error(tmp_path):
    files = {**retrieval(), "lra_release/lra_release/tsv_data/new_aan_pairs.eval.tsv": b""}
    archive = write_archive(tmp_path / "lra_release.gz", files)
    with pytest.raises(ValueError, match="pairs.eval.tsv.*: there are no examples for valid"):
        prepare(["retrieval"], archive, tmp_path / "out")
    assert not list((tmp_path / "out").glob("retrieval-bin*"))


def test_texts_of_papers_are_literal(tmp_path):
    (tmp_path / "pairs.tsv").write_bytes(
        b"1.0\tP1\tC1\tb'one\\n'\tb\"it's\"\n0.0\tP2\tC2\t\"\xff\r\t two \r\n1\tP3\tC3\t\tlast"
    )
    examples = list(aan_examples(tmp_path / "pairs.tsv"))
    assert [([bytes(text) for text in texts], label) for texts, label in examples] == [
        ([b"b'one\\n'", b'b"it\'s"'], "1"),
        ([b'"\xff\r', b" two "], "0"),
        ([b"", b"last"], "1"),
    ]


IMAGE = f"{PATHFINDER}/imgs/2/sample_5.png"
METADATA = f"{PATHFINDER}/metadata/2.npy"
IMAGES = {
    name.removeprefix("lra_release/lra_release/"): content
    for name, content in pathfinder().items()
    if PATHFINDER in name
}


def test_images_are_in_the_order_of_the_metadata(tmp_path):
    """Folders are in the order of their numbers, whatever the archive's; others are not read."""
    archive = write_archive(tmp_path / "lra_release.gz", pathfinder())
    examples = pathfinder_examples(read_files(archive, PATHFINDER_FILES))
    numbers = [(batch, number) for batch in (0, 2, 10) for number in range(10)]
    assert [label for _, label in examples] == [str(number % 2) for _, number in numbers]
    for ([pixels], _), (batch, number) in zip(examples, numbers):
        assert pixels.dtype == np.uint8
        assert (pixels == picture(batch, number).flatten()).all()


def huge_png():
    """An image whose header says that it is huge, which is all that is read of it."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header
    return content + struct.pack(">I", zlib.crc32(header)) + png(picture(2, 5))[33:]


LINES = IMAGES[METADATA].splitlines(keepends=True)


@pytest.mark.parametrize(
    "changes, message",
    [
        *(
            ({IMAGE: png(picture(2, 5))[:length]}, f"^{IMAGE} cannot be read")
            for length in (0, 30, -25)
        ),
        ({IMAGE: png(np.zeros((32, 64)))}, f"{IMAGE} .*64x32 pixels, expected 32x32"),
        ({IMAGE: huge_png()}, f"{IMAGE} .*3600000000 pixels"),
        ({METADATA: LINES[0] + b"imgs/2 sample_1.png 1\n"}, f"{METADATA}, line 2: .*'imgs/2"),
        ({METADATA: LINES[0] + b"\n" + LINES[1]}, f"{METADATA}, line 2: .* found ''"),
        ({METADATA: b"imgs/2 sample_0.png 0 2 1.0\n"}, f"{METADATA}, line 1"),
        ({METADATA: b"imgs/2 sample_0.png 0 1.0 14\n"}, f"{METADATA}, line 1"),
        ({METADATA: b"\xff\n"}, f"{METADATA}, line 1"),
        (
            {METADATA: b"".join(LINES[:5] + LINES[6:])},
            "30 images but 29 labels; .* imgs/2/sample_5.png$",
        ),
        ({IMAGE: None}, "29 images but 30 labels; .* imgs/2/sample_5.png$"),
    ],
)
def test_a_bad_image_or_label_is_named(changes, message):
    files = {name: data for name, data in {**IMAGES, **changes}.items() if data is not None}
    with pytest.raises(ValueError, match=message):
        pathfinder_examples(files)


def record(label, red=0, green=0, blue=0):
    return bytes([label, *[red] * 1024, *[green] * 1024, *[blue] * 1024])


def test_records_of_cifar10():
    content = record(3, 40, 40, 40) + record(9, 255) + record(0, 0, 255) + record(1, 0, 0, 255)
    images, labels = zip(*cifar10_examples(content, "batch.bin"))
    assert labels == ("cat", "truck", "airplane", "automobile")
    assert [set(image) for [image] in images] == [{40}, {76}, {149}, {29}]
    assert all(len(image) == 1024 for [image] in images)


def test_pixels_keep_their_places():
    channel = np.arange(1024, dtype=np.uint16).astype(np.uint8)
    [([image], _)] = cifar10_examples(bytes([0, *np.tile(channel, 3)]), "batch.bin")
    assert (image == channel).all()


def test_weights_of_the_colours():
    """The formula in exact arithmetic, but where that is within 1e-3 of the next intensity."""
    levels = np.arange(256, dtype=np.uint8)
    assert (grey(np.stack([levels] * 3)) == levels).all()
    rgb = np.random.default_rng(0).integers(256, size=(3, 10_000), dtype=np.uint8)
    red, green, blue = rgb.astype(int)
    exact = 2555 * (2989 * red + 5870 * green + 1140 * blue) / (255 * 10 * 10_000)
    clear = abs(exact - exact.round()) > 1e-3
    assert clear.mean() > 0.99
    assert (grey(rgb) == exact.astype(int))[clear].all()


@pytest.mark.parametrize(
    "line, message",
    [
        (b"1.0\tP1\tC1\ttext", "4 columns"),
        (b"1.0\tP1\tC1\ta\tb\tc", "6 columns"),
        (b"", "1 columns"),
        (b"2.0\tP1\tC1\ta\tb", "class '2'"),
        (b"label\tid1\tid2\ta\tb", "class 'label'"),
        (b"\xff\tP1\tC1\ta\tb", r"class '\\\\xff'"),
    ],
)
def test_a_bad_pair_is_named(line, message, tmp_path):
    (tmp_path / "file").write_bytes(b"1.0\tP0\tC0\ta\tb\n" + line + b"\n")
    with pytest.raises(ValueError, match=f"^{tmp_path}/file, line 2: expected .* {message}"):
        list(aan_examples(tmp_path / "file"))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", " has 0 bytes"),
        (bytes(3 * 3073 - 1), " has 9,218 bytes, expected a multiple of 3,073"),
        (record(9) + record(10), ", record 2: class 10, expected 0 to 9"),
    ],
)
def test_a_bad_record_is_named(content, message):
    with pytest.raises(ValueError, match=f"^test_batch.bin{message}"):
        list(cifar10_examples(content, "test_batch.bin"))
