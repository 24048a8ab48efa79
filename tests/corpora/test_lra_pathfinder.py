"""Images find their labels wherever they are; bad ones are named."""

import io
import struct
import zlib

import numpy as np
import pytest
from lra_release import PATHFINDER, pathfinder, picture, png, write_archive, write_folder

from fairseq_odeformers.corpora.lra_pathfinder import read

IMAGE = f"{PATHFINDER}/imgs/2/sample_5.png"
METADATA = f"{PATHFINDER}/metadata/2.npy"


def read_archive(tmp_path, changes):
    files = {**pathfinder(), **changes}
    files = {name: content for name, content in files.items() if content is not None}
    return read(write_archive(tmp_path / "lra_release.gz", files), workers=1)


@pytest.mark.parametrize("kind", ["archive", "folder"])
@pytest.mark.parametrize("workers", [1, 3])
def test_images_are_in_the_order_of_the_metadata(kind, workers, tmp_path):
    if kind == "archive":
        source = write_archive(tmp_path / "lra_release.gz", pathfinder())
    else:
        source = write_folder(tmp_path, pathfinder()) / PATHFINDER
    examples = read(source, workers)
    numbers = [(batch, number) for batch in (0, 2, 10) for number in range(10)]
    assert [label for _, label in examples] == [str(number % 2) for _, number in numbers]
    for (pixels, _), (batch, number) in zip(examples, numbers):
        assert pixels.dtype == np.uint8
        assert (pixels == picture(batch, number).flatten()).all()


@pytest.mark.parametrize("length", [0, 7, 30, 60, -25])
def test_an_image_that_is_cut_off_is_named(length, tmp_path):
    message = f"{IMAGE} in .*/lra_release.gz is no PNG image, or cut off"
    with pytest.raises(ValueError, match=message):
        read_archive(tmp_path, {IMAGE: png(picture(2, 5))[:length]})


def test_an_image_of_another_size_is_named(tmp_path):
    message = f"{IMAGE} in .*/lra_release.gz has 64x32 pixels, expected 32x32"
    with pytest.raises(ValueError, match=message):
        read_archive(tmp_path, {IMAGE: png(np.zeros((32, 64)))})


def test_an_image_that_says_to_be_huge_is_named(tmp_path):
    """Its header alone, which is all that is read of it."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header
    content += struct.pack(">I", zlib.crc32(header))
    with pytest.raises(ValueError, match=f"{IMAGE} in .*/lra_release.gz: .*3600000000 pixels"):
        read_archive(tmp_path, {IMAGE: content + png(picture(2, 5))[33:]})


def array():
    file = io.BytesIO()
    np.save(file, np.array([["imgs/2", "sample_0.png", "0", "1"]]))
    return file.getvalue()


@pytest.mark.parametrize(
    "content, line",
    [
        (b"imgs/2 sample_0.png 0 1 1.0\nimgs/2 sample_1.png 1\n", 2),
        (b"imgs/2 sample_0.png 0 1 1.0\n\nimgs/2 sample_1.png 1 1 1.0\n", 2),
        (b"imgs/2 sample_0.png 0 2 1.0\n", 1),
        (b"imgs/2 sample_0.png 0 1.0 14\n", 1),
        (b"\xff\n", 1),
        (array(), 1),
    ],
)
def test_a_bad_line_of_the_metadata_is_named(content, line, tmp_path):
    found = content.decode("utf-8", "backslashreplace").splitlines()[line - 1][:80]
    with pytest.raises(ValueError) as caught:
        read_archive(tmp_path, {METADATA: content})
    assert str(caught.value) == (
        f"{METADATA} in {tmp_path}/lra_release.gz, line {line}: expected folder, file, number, "
        f"class (0 or 1), found {found!r}"
    )


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_a_damaged_archive_is_named(part, tmp_path):
    archive = write_archive(tmp_path / "lra_release.gz", pathfinder())
    content = archive.read_bytes()
    archive.write_bytes(content[: int(part * len(content))])
    with pytest.raises(ValueError, match="lra_release.gz is damaged"):
        read(archive, workers=1)


def test_an_image_without_a_label_is_named(tmp_path):
    metadata = pathfinder()[METADATA].splitlines(keepends=True)
    message = (
        "has 30 images but 29 labels of .*; the first without the other is imgs/2/sample_5.png"
    )
    with pytest.raises(ValueError, match=message):
        read_archive(tmp_path, {METADATA: b"".join(metadata[:5] + metadata[6:])})


def test_a_label_without_an_image_is_named(tmp_path):
    message = (
        "has 29 images but 30 labels of .*; the first without the other is imgs/2/sample_5.png"
    )
    with pytest.raises(ValueError, match=message):
        read_archive(tmp_path, {IMAGE: None})


def test_missing_metadata_is_an_error(tmp_path):
    changes = {f"{PATHFINDER}/metadata/{batch}.npy": None for batch in (0, 2, 10)}
    message = "lra_release.gz has no pathfinder32/curv_contour_length_14/metadata"
    with pytest.raises(ValueError, match=message):
        read_archive(tmp_path, changes)
