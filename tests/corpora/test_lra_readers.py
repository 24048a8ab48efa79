"""Published files become their examples; what they should not have is named."""

import io
import struct
import zlib

import numpy as np
import pytest
from published import PATHFINDER, pathfinder, picture, png, write_archive, write_folder

from fairseq_odeformers.corpora.lra_readers import (
    aan_examples,
    cifar10_examples,
    grey,
    pathfinder_examples,
)

IMAGE = f"{PATHFINDER}/imgs/2/sample_5.png"
METADATA = f"{PATHFINDER}/metadata/2.npy"


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


def read_pathfinder(tmp_path, changes):
    files = {**pathfinder(), **changes}
    files = {name: content for name, content in files.items() if content is not None}
    return pathfinder_examples(write_archive(tmp_path / "lra_release.gz", files))


@pytest.mark.parametrize("kind", ["archive", "folder"])
def test_images_are_in_the_order_of_the_metadata(kind, tmp_path):
    if kind == "archive":
        source = write_archive(tmp_path / "lra_release.gz", pathfinder())
    else:
        source = write_folder(tmp_path, pathfinder())
    examples = pathfinder_examples(source)
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


def array():
    file = io.BytesIO()
    np.save(file, np.array([["imgs/2", "sample_0.png", "0", "1"]]))
    return file.getvalue()


LINES = pathfinder()[METADATA].splitlines(keepends=True)


@pytest.mark.parametrize(
    "changes, message",
    [
        *(
            ({IMAGE: png(picture(2, 5))[:length]}, f"^{IMAGE} in .*/lra_release.gz: ")
            for length in (0, 7, 30, 60, -25)
        ),
        ({IMAGE: png(np.zeros((32, 64)))}, f"{IMAGE} in .*: 64x32 pixels, expected 32x32"),
        ({IMAGE: huge_png()}, f"{IMAGE} in .*: .*3600000000 pixels"),
        ({METADATA: LINES[0] + b"imgs/2 sample_1.png 1\n"}, f"{METADATA} in .*, line 2: .*'imgs/2"),
        ({METADATA: LINES[0] + b"\n" + LINES[1]}, f"{METADATA} in .*, line 2: .* found ''"),
        ({METADATA: b"imgs/2 sample_0.png 0 2 1.0\n"}, f"{METADATA} in .*, line 1"),
        ({METADATA: b"imgs/2 sample_0.png 0 1.0 14\n"}, f"{METADATA} in .*, line 1"),
        ({METADATA: b"\xff\n"}, f"{METADATA} in .*, line 1"),
        ({METADATA: array()}, f"{METADATA} in .*, line 1"),
        ({METADATA: b"".join(LINES[:5] + LINES[6:])}, "30 images but 29 .* imgs/2/sample_5.png$"),
        ({IMAGE: None}, "29 images but 30 labels .* imgs/2/sample_5.png$"),
        (
            {f"{PATHFINDER}/metadata/{batch}.npy": None for batch in (0, 2, 10)},
            "lra_release.gz has no pathfinder32/curv_contour_length_14/metadata",
        ),
    ],
)
def test_a_bad_image_or_label_is_named(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_pathfinder(tmp_path, changes)


def record(label, red=0, green=0, blue=0):
    return bytes([label, *[red] * 1024, *[green] * 1024, *[blue] * 1024])


def test_records_of_cifar10(tmp_path):
    (tmp_path / "batch.bin").write_bytes(
        record(3, 40, 40, 40) + record(9, 255) + record(0, 0, 255) + record(1, 0, 0, 255)
    )
    images, labels = zip(*cifar10_examples(tmp_path / "batch.bin"))
    assert labels == ("cat", "truck", "airplane", "automobile")
    assert [set(image) for [image] in images] == [{40}, {76}, {149}, {29}]
    assert all(len(image) == 1024 for [image] in images)


def test_pixels_keep_their_places(tmp_path):
    channel = np.arange(1024, dtype=np.uint16).astype(np.uint8)
    (tmp_path / "batch.bin").write_bytes(bytes([0, *np.tile(channel, 3)]))
    [([image], _)] = cifar10_examples(tmp_path / "batch.bin")
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
    "read, content, message",
    [
        *(
            (aan_examples, b"1.0\tP0\tC0\ta\tb\n" + line + b"\n", message)
            for line, message in (
                (b"1.0\tP1\tC1\ttext", "line 2: expected .* 4 columns"),
                (b"1.0\tP1\tC1\ta\tb\tc", "line 2: expected .* 6 columns"),
                (b"", "line 2: expected .* 1 columns"),
                (b"2.0\tP1\tC1\ta\tb", "line 2: expected .* class '2'"),
                (b"0.5\tP1\tC1\ta\tb", "line 2: expected .* class '0.5'"),
                (b"label\tid1\tid2\ta\tb", "line 2: expected .* class 'label'"),
                (b"\xff\tP1\tC1\ta\tb", r"line 2: expected .* class '\\\\xff'"),
            )
        ),
        (cifar10_examples, b"", "has 0 bytes"),
        (cifar10_examples, bytes(3072), "has 3,072 bytes"),
        (cifar10_examples, bytes(3 * 3073 - 1), "has 9,218 bytes, expected a multiple of 3,073"),
        (cifar10_examples, record(9) + record(10), "record 2: class 10, expected 0 to 9"),
    ],
)
def test_a_bad_line_or_record_is_named(read, content, message, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=f"^{tmp_path}/file,? {message}"):
        list(read(tmp_path / "file"))
