"""Records become grey images; a file that has something else is named."""

import numpy as np
import pytest

from fairseq_odeformers.corpora.cifar10 import CLASSES, grey, read


def record(label, red=0, green=0, blue=0):
    return bytes([label, *[red] * 1024, *[green] * 1024, *[blue] * 1024])


def test_records(tmp_path):
    (tmp_path / "batch.bin").write_bytes(
        record(3, 40, 40, 40) + record(9, 255) + record(0, 0, 255) + record(1, 0, 0, 255)
    )
    images, labels = zip(*read(tmp_path / "batch.bin"))
    assert labels == ("cat", "truck", "airplane", "automobile")
    assert [set(image) for image in images] == [{40}, {76}, {149}, {29}]
    assert all(len(image) == 1024 for image in images)


def test_pixels_keep_their_places(tmp_path):
    channel = np.arange(1024, dtype=np.uint16).astype(np.uint8)
    (tmp_path / "batch.bin").write_bytes(bytes([0, *np.tile(channel, 3)]))
    [(image, _)] = read(tmp_path / "batch.bin")
    assert (image == channel).all()


def test_grey_stays_grey():
    levels = np.arange(256, dtype=np.uint8)
    assert (grey(np.stack([levels] * 3)) == levels).all()


def test_weights_of_the_colours():
    """The formula in exact arithmetic, but where that is within 1e-3 of the next intensity."""
    rgb = np.random.default_rng(0).integers(256, size=(3, 10_000), dtype=np.uint8)
    red, green, blue = rgb.astype(int)
    exact = 2555 * (2989 * red + 5870 * green + 1140 * blue) / (255 * 10 * 10_000)
    clear = abs(exact - exact.round()) > 1e-3
    assert clear.mean() > 0.99
    assert (grey(rgb) == exact.astype(int))[clear].all()


@pytest.mark.parametrize("size, count", [(0, "0"), (3072, "3,072"), (3 * 3073 - 1, "9,218")])
def test_a_file_that_is_cut_off_is_named(size, count, tmp_path):
    (tmp_path / "batch.bin").write_bytes(bytes(size))
    message = f"batch.bin has {count} bytes, expected a multiple of 3,073"
    with pytest.raises(ValueError, match=message):
        list(read(tmp_path / "batch.bin"))


def test_a_class_of_another_data_set_is_named(tmp_path):
    (tmp_path / "batch.bin").write_bytes(record(len(CLASSES) - 1) + record(len(CLASSES)))
    with pytest.raises(ValueError, match="batch.bin, record 2: class 10, expected 0 to 9"):
        list(read(tmp_path / "batch.bin"))
