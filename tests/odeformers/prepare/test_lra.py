"""Each task has its published examples, data are found where they lie, bad data are named."""

import contextlib
import io
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.bytes import Bytes
from fairseq.data.indexed_dataset import MMapIndexedDataset
from published import LRA, pathfinder, picture, png, retrieval, write_archive, write_folder
from script_helpers import contents, sentence_prediction

from odeformers.__main__ import main
from odeformers.prepare.lra import CORPORA, PATHFINDER, convert_to_grey, split_randomly


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Data of the published archives; each archive is fetched once."""
    server, out = tmp_path_factory.mktemp("server"), tmp_path_factory.mktemp("prepared")
    for name, files in LRA.items():
        write_archive(server / name, files())
    log = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(log):
        for task, corpus in CORPORA.items():
            [download] = corpus.downloads
            url = (server / Path(download.url).name).as_uri()
            local = replace(corpus, downloads=[download._replace(url=url, sha256="")])
            patch.setitem(CORPORA, task, local)
        main(["prepare", "lra", "--out", str(out), "--workers", "1"])
    assert {path.name for path in out.glob("*-bin")} == {f"{task}-bin" for task in CORPORA}
    for name in LRA:
        assert log.getvalue().count(f"downloading {(server / name).as_uri()}") == 1
    return out


def load(data, task):
    """The text and class of each example of each split, as fairseq's task reads them."""
    for split in ("train", "valid", "test"):
        classes = len(CORPORA[task].writer.classes)
        prediction, dataset = sentence_prediction(data / f"{task}-bin", split, classes)
        symbols = np.array(prediction.source_dictionary.symbols)
        names = prediction.label_dictionary
        texts = (" ".join(symbols[x["net_input.src_tokens"]]) for x in dataset)
        if task in ("text", "retrieval"):  # symbols name bytes
            texts = (" </s> ".join(map(Bytes.decode, text.split("</s>"))) for text in texts)
        yield [(text, names[int(x["target"]) + names.nspecial]) for text, x in zip(texts, dataset)]


def reviews(split, **sizes):
    return [
        (f"{split} {label}<br />\t{n}é </s> ", label)
        for label, size in sizes.items()
        for n in range(size)
    ]


def as_text(image):
    return " ".join(map(str, image.flatten()))


GREY = [
    (as_text(np.full(1024, n)), name)
    for n, name in enumerate(("airplane", "automobile", "bird", "cat"))
]
EXPECTED = {  # text and class of the examples of each split
    "listops": [
        [(f"[SM {n} 7 ] </s>", str((n + 7) % 10)) for n in range(size)] for size in (8, 3, 2)
    ],
    "text": [reviews("train", neg=4, pos=3), *[reviews("test", neg=2, pos=2)] * 2],
    "retrieval": [
        [(f"b\"{name}\\n\" </s> b'é {n}' </s> ", str(n % 2)) for n in range(size)]
        for name, size in (("train", 7), ("eval", 3), ("test", 4))
    ],
    **{
        task: split_randomly(
            [(as_text(picture(i, n, width)), str(n % 2)) for i in (0, 2, 10) for n in range(10)], 3
        )
        for task, width in (("pathfinder", 32), ("pathx", 128))
    },
    "image": [*split_randomly(GREY * 5, 2), GREY[:3]],
}


@pytest.mark.parametrize("task", EXPECTED)
def test_splits_have_the_published_examples(task, prepared):
    """Bytes are unchanged, and the test set also validates if there is no validation set.

    All symbols have a place in the dictionary, even if they do not occur.
    """
    assert list(load(prepared, task)) == [list(split) for split in EXPECTED[task]]
    for path in (prepared / f"{task}-bin").glob("input*/dict.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) == (15 if task == "listops" else 256)
        assert all(len(line.split()) == 2 for line in lines)


def test_the_last_reviews_of_each_class_are_held_out(prepare, tmp_path):
    """Reviews are ordered by number. The test set stays, and is not used for validation."""
    sizes = {"train": 12, "test": 2}
    files = {
        f"{split}/{label}/{n}_7.txt": f"{split} {label} {n}".encode()
        for split, size in sizes.items()
        for label in ("neg", "pos")
        for n in range(size)
    }
    prepare("lra text --valid-fraction 0.25", write_folder(tmp_path / "aclImdb", files))

    def numbered(split, *numbers):
        return [(f"{split} {name} {n} </s> ", name) for name in ("neg", "pos") for n in numbers]

    expected = [numbered("train", *range(9)), numbered("train", 9, 10, 11), numbered("test", 0, 1)]
    assert list(load(prepare.out, "text")) == expected


@pytest.mark.parametrize(
    "task, share, message",
    [("text", "0.1", "from 7 training texts, .* none"), ("image", "0.1", "only the task text")],
)
def test_a_share_that_holds_out_no_example_is_refused(task, share, message, prepare, tmp_path):
    source = write_folder(tmp_path, LRA["aclImdb_v1.tar.gz"]())
    line = f"lra {task} --valid-fraction {share}"
    prepare.refuses(message, line, source / "aclImdb")


def results(out):
    """The files of the data sets below a folder, except their recipes."""
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
        ("pathx", "lra_release"),
        ("image", "cifar-10-batches-bin"),
    ],
)
def test_the_folder_of_a_task_is_accepted(task, folder, prepared, prepare, tmp_path):
    write_folder(tmp_path, LRA[Path(CORPORA[task].downloads[0].url).name]())
    prepare(f"lra {task}", tmp_path / folder)
    expected = {path: data for path, data in results(prepared).items() if task in path.parts[0]}
    assert results(prepare.out) == expected


@pytest.mark.parametrize("size", [30, 57, 1000])
def test_random_splits_are_drawn_as_by_s4(size):
    """Validation and test set are disjoint tenths."""
    train, valid, test = split_randomly(list(range(size)), 3)
    assert len(valid) == len(test) == size // 10
    order = torch.randperm(size, generator=torch.Generator().manual_seed(42)).tolist()
    assert [*train, *valid, *test] == order


def raw(data, split, part="input0"):
    """The examples of a split of binarised bytes or pixels, as bytes."""
    rows = MMapIndexedDataset(str(data / part / split))
    dictionary = Dictionary.load(str(data / part / "dict.txt"))
    ids = ((row[row != dictionary.eos()] - dictionary.nspecial).tolist() for row in rows)
    return [bytes(row) for row in ids]


def test_texts_of_papers_are_read_literally(prepare, tmp_path):
    lines = b"1.0\tP1\tC1\tb'one\\n'\tb\"it's\"\n0.0\tP2\tC2\t\"\xff\r\t two \r\n1\tP3\tC3\t\tlast"
    names = ("train", "eval", "test")
    files = {f"new_aan_pairs.{name}.tsv": lines for name in names}
    prepare("lra retrieval", write_folder(tmp_path / "raw", files))
    data = prepare.out / "retrieval-bin"
    assert raw(data, "train") == [b"b'one\\n'", b'"\xff\r', b""]
    assert raw(data, "train", "input1") == [b'b"it\'s"', b" two ", b"last"]
    assert [[*label] for label in raw(data, "train", "label")] == [[1], [0], [1]]


IMAGE = f"{PATHFINDER}/imgs/2/sample_5.png"
METADATA = f"{PATHFINDER}/metadata/2.npy"
IMAGES = {
    name.removeprefix("lra_release/lra_release/"): content
    for name, content in pathfinder().items()
    if PATHFINDER in name
}


def huge_png():
    """A PNG header of a huge image, the only part that is read."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header
    return content + struct.pack(">I", zlib.crc32(header)) + png(picture(2, 5))[33:]


LINES = IMAGES[METADATA].splitlines(keepends=True)


@pytest.mark.parametrize(
    "changes, message",
    [
        *(({IMAGE: png(picture(2, 5))[:size]}, f"{IMAGE}") for size in (0, 30, -25)),
        ({IMAGE: png(np.zeros((32, 64)))}, f"{IMAGE} .*64x32"),
        ({IMAGE: huge_png()}, f"{IMAGE} .*3600000000 pixels"),
        ({METADATA: LINES[0] + b"imgs/2 sample_1.png 1\n"}, f"{METADATA}, line 2: .*'imgs/2"),
        ({METADATA: LINES[0] + b"\n" + LINES[1]}, f"{METADATA}, line 2: .* found ''"),
        ({METADATA: b"imgs/2 sample_0.png 0 2 1.0\n"}, f"{METADATA}, line 1"),
        ({METADATA: b"imgs/2 sample_0.png 0 1.0 14\n"}, f"{METADATA}, line 1"),
        ({METADATA: b"\xff\n"}, f"{METADATA}, line 1"),
        ({METADATA: b"".join(LINES[:5] + LINES[6:])}, "30 .* 29 .* imgs/2/sample_5.png is the"),
        ({IMAGE: None}, "29 .* 30 .* imgs/2/sample_5.png is the"),
    ],
)
def test_a_bad_image_or_label_is_named(changes, message, prepare, tmp_path):
    files = {name: data for name, data in {**IMAGES, **changes}.items() if data is not None}
    prepare.refuses(message, "lra pathfinder", write_folder(tmp_path / "raw", files))


def record(label, red=0, green=0, blue=0):
    return bytes([label, *[red] * 1024, *[green] * 1024, *[blue] * 1024])


def cifar10(**changes):
    """Files of one record each, with their own class each."""
    files = {f"data_batch_{n}.bin": record(n) for n in range(1, 6)}
    return {**files, "test_batch.bin": record(0), **changes}


def test_records_of_cifar10_become_intensities(prepare, tmp_path):
    """Pixels keep their places, and pure colours have known intensities."""
    channel = np.arange(1024, dtype=np.uint16).astype(np.uint8)
    content = record(3, 40, 40, 40) + record(9, 255) + record(0, 0, 255) + record(1, 0, 0, 255)
    content += bytes([0, *np.tile(channel, 3)])
    files = cifar10(**{"data_batch_1.bin": record(1) * 8, "test_batch.bin": content})
    prepare("lra image", write_folder(tmp_path / "raw", files))
    data = prepare.out / "image-bin"
    expected = [bytes([intensity] * 1024) for intensity in (40, 76, 149, 29)]
    assert raw(data, "test") == [*expected, channel.tobytes()]
    assert [label for [label] in raw(data, "test", "label")] == [3, 9, 0, 1, 0]


def test_intensities_equal_the_exact_formula():
    """Values within 1e-3 of the next intensity are excepted."""
    levels = np.arange(256, dtype=np.uint8)
    assert (convert_to_grey(np.stack([levels] * 3)) == levels).all()
    rgb = np.random.default_rng(0).integers(256, size=(3, 10_000), dtype=np.uint8)
    red, green, blue = rgb.astype(int)
    exact = 2555 * (2989 * red + 5870 * green + 1140 * blue) / (255 * 10 * 10_000)
    clear = abs(exact - exact.round()) > 1e-3
    assert clear.mean() > 0.99
    assert (convert_to_grey(rgb) == exact.astype(int))[clear].all()


@pytest.mark.parametrize(
    "line",
    [
        b"1.0\tP1\tC1\ttext",
        b"1.0\tP1\tC1\ta\tb\tc",
        b"",
        b"2.0\tP1\tC1\ta\tb",
        b"label\tid1\tid2\ta\tb",
        b"\xff\tP1\tC1\ta\tb",
    ],
)
def test_a_bad_pair_is_named(line, prepare, tmp_path):
    files = {
        f"new_aan_pairs.{name}.tsv": b"1.0\tP0\tC0\ta\tb\n" for name in ("train", "eval", "test")
    }
    files["new_aan_pairs.train.tsv"] += line + b"\n"
    message = "new_aan_pairs.train.tsv, line 2: "
    prepare.refuses(message, "lra retrieval", write_folder(tmp_path / "raw", files))


@pytest.mark.parametrize("content", [b"", bytes(3 * 3073 - 1), record(9) + record(10)])
def test_a_file_with_a_bad_record_is_named(content, prepare, tmp_path):
    source = write_folder(tmp_path / "raw", cifar10(**{"test_batch.bin": content}))
    prepare.refuses("test_batch.bin is truncated, or has a class", "lra image", source)


def test_a_split_without_examples_is_refused(prepare, tmp_path):
    files = {**retrieval(), "lra_release/lra_release/tsv_data/new_aan_pairs.eval.tsv": b""}
    source = write_folder(tmp_path / "source", files)
    prepare.refuses("no examples for valid", "lra retrieval", source)
