"""Images show what their class says, whether one follows the geometry or the pixels."""

import itertools

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, data_utils
from PIL import Image
from script_helpers import contents
from torch.nn import functional as F

from fairseq_odeformers.corpora import pathfinder
from fairseq_odeformers.corpora.pathfinder import SEGMENT, SIZE, Scenes, draw, prepare, render

SIZES = {"train": 60, "valid": 8, "test": 6}
GAP = SEGMENT - pathfinder.DASH  # between the middle lines of dashes, at most


@pytest.fixture(scope="module", params=pathfinder.LENGTHS)
def drawn(request):
    """The number of segments of a long contour, and many scenes."""
    return request.param, draw(request.param, np.random.default_rng(7))


@pytest.fixture
def small_batch(monkeypatch):
    monkeypatch.setattr(pathfinder, "BATCH", 32)


def contours(joints):
    """The contours of one image, in order."""
    ends = np.flatnonzero(np.isnan(joints))
    return [part[~np.isnan(part)] for part in np.split(joints, ends) if (~np.isnan(part)).any()]


def dashes(joints):
    """Both ends of the middle line of each dash of an image."""
    half = pathfinder.DASH / SEGMENT / 2
    for contour in contours(joints):
        for a, b in zip(contour, contour[1:]):
            yield (a + b) / 2 - half * (b - a), (a + b) / 2 + half * (b - a)


def reachable(start, lines, step):
    """Indices of the lines to be reached from a point by steps between ends of lines."""
    reached, front = set(), [start]
    while front:
        point = front.pop()
        for index, ends in enumerate(lines):
            if index not in reached and min(abs(point - end) for end in ends) <= step:
                reached.add(index)
                front.extend(ends)
    return reached


def test_who_goes_from_dash_to_dash_finds_the_class(drawn):
    """A step is the largest gap in a contour, and leads to no other contour."""
    segments, scenes = drawn
    for joints, dots, label in zip(scenes.joints, scenes.dots, scenes.labels):
        ways = [reachable(dot, list(dashes(joints)), GAP + 0.01) for dot in dots]
        assert [len(way) for way in ways] == [segments, segments]
        assert (ways[0] == ways[1]) == (label == 1)
        assert label == 1 or not ways[0] & ways[1]


def test_pixels_show_the_class():
    """Bright regions that are half a pixel thicker join the dots or not, nearly always."""
    scenes = draw(14, np.random.default_rng(1))
    scenes = Scenes(*(column[:40] for column in scenes))
    scale = 4
    images = torch.from_numpy(render(scenes)).float()[:, None]
    enlarged = F.interpolate(images, scale_factor=scale, mode="bilinear")
    radius = torch.linspace(-1, 1, 2 * scale + 1)
    disc = ((radius[:, None] ** 2 + radius**2) <= 0.25).float()
    lines = F.conv2d((enlarged > 45).float(), disc[None, None], padding=scale).clamp(max=1)
    rows, columns = ((scenes.dots.imag * scale).astype(int), (scenes.dots.real * scale).astype(int))
    found = torch.zeros_like(lines)
    number = torch.arange(len(lines))
    found[number, 0, rows[:, 0], columns[:, 0]] = 1
    for _ in range(8 * SIZE):
        found = F.max_pool2d(found, 3, stride=1, padding=1) * lines
    joined = found[number, 0, rows[:, 1], columns[:, 1]].numpy()
    assert (joined == scenes.labels).mean() > 0.9


def test_geometry(drawn):
    """Lengths of segments, bounded turns, starts 7 pixels apart, dots at a start and an end."""
    segments, scenes = drawn
    for joints, dots in zip(scenes.joints, scenes.dots):
        first, second, *distractors = contours(joints)
        assert len(first) == len(second) == segments + 1
        assert {len(contour) for contour in distractors} <= {segments // 3 + 1}
        assert abs(first[0] - second[0]) == pytest.approx(7, abs=1e-4)
        assert dots[0] in (first[0], second[0]) and dots[1] in (first[-1], second[-1])
        for contour in (first, second, *distractors):
            steps = np.diff(contour)
            np.testing.assert_allclose(np.abs(steps), SEGMENT, rtol=1e-4)
            assert (np.abs(np.angle(steps[1:] * steps[:-1].conj())) < np.pi / 2).all()
            assert (np.minimum(contour.real, contour.imag) > 1.5).all()
            assert (np.maximum(contour.real, contour.imag) < SIZE - 1.5).all()


def test_contours_are_smooth(drawn):
    """The mean cosine of a turn would be 8 / (3 pi) if there were room everywhere."""
    steps = np.diff(drawn[1].joints, axis=1)
    turns = np.angle(steps[:, 1:] * steps[:, :-1].conj())
    assert np.nanmean(np.cos(turns)) == pytest.approx(8 / (3 * np.pi), abs=0.05)


def test_distances(drawn):
    """Points on segments that do not follow each other, and those around ends of contours."""
    for joints in drawn[1].joints[:100]:
        segments = np.array(
            [
                (number, index, a, b)
                for number, contour in enumerate(contours(joints))
                for index, (a, b) in enumerate(zip(contour, contour[1:]))
            ]
        )
        owner, index = segments[:, :2].real.T
        start, end = segments[:, 2:].T
        points = start[:, None] + np.linspace(0, 1, 9) * (end - start)[:, None]
        between = np.abs(points[:, None, :, None] - points[None, :, None, :]).min((2, 3))
        same = owner[:, None] == owner
        apart = ~same | (np.abs(index[:, None] - index) > 1)
        assert between[apart].min() > 3 - 1e-3
        for number, contour in enumerate(contours(joints)):
            own = owner == number
            for end, next_ones in ((contour[0], index < 3), (contour[-1], index >= own.sum() - 3)):
                assert np.abs(points - end).min(1)[~(own & next_ones)].min() > 3.5 - 1e-3


def test_there_are_distractors(drawn):
    """Up to 20 segments; most images have more than one distractor."""
    segments, scenes = drawn
    counts = np.array([len(contours(joints)) - 2 for joints in scenes.joints])
    assert counts.max() <= 20 // (segments // 3)
    assert (counts > 0).mean() > 0.98
    assert counts.mean() > 2


def test_classes_alternate(drawn):
    labels = drawn[1].labels
    assert len(labels) > 500
    assert labels.tolist() == [0, 1] * (len(labels) // 2)


def test_brightness_of_known_dots_and_dashes():
    """By distance from the middle of a pixel: 1 if covered, and falling to 0 in a pixel."""
    joints = np.array(
        [[4.5 + 4.5j, 4.5 + 4.5j + SEGMENT, np.nan, 20.3 + 10.5j, 20.3 + 10.5j + 1j * SEGMENT]]
    )
    dots = np.array([[10.5 + 20.5j, 28 + 28j]])
    image = render(Scenes(joints, dots, np.array([0])))[0]
    assert image.shape == (SIZE, SIZE)

    around = np.array([[0, 0, 0, 0, 0], [0, 149, 255, 149, 0], [0, 255, 255, 255, 0]])
    dot = np.concatenate([around, around[1::-1]])
    assert (image[18:23, 8:13] == dot).all()
    assert (image[26:30, 26:30] == image[26:30, 26:30].T).all() and image[28, 28] == 255

    # a dash from 5.7 to 6.5, pixels in the middle of the line and beyond its ends
    assert image[4, 4:8].tolist() == [0, 204, 255, 0]
    assert (image[[3, 5], 4:8] == 0).all()
    # a dash from 11.7 to 12.5, whose line is 0.2 off the middle of one column
    assert image[12, 18:22].tolist() == [0, 51, 204, 0]
    image[18:23, 8:13] = image[26:30, 26:30] = image[4, 5:7] = image[11:13, 19:21] = 0
    assert not image.any()


def test_the_data_set_does_not_depend_on_the_workers(tmp_path, small_batch):
    folders = [
        prepare(tmp_path / f"out{workers}", SIZES, 6, seed=3, workers=workers) for workers in (1, 3)
    ]
    assert contents(folders[0]) == contents(folders[1])


def test_fairseq_reads_the_data_set(tmp_path, small_batch):
    """Tokens are intensities, row by row; splits are balanced parts of one stream of images."""
    folder = prepare(tmp_path / "out", SIZES, 9, seed=1, workers=1)
    stream = pathfinder.generate(9, seed=1, workers=1)
    dictionaries = [
        Dictionary.load(str(folder / part / "dict.txt")) for part in ("input0", "label")
    ]
    pixels, labels = dictionaries
    assert pixels.symbols[pixels.nspecial :] == [str(value) for value in range(256)]
    assert labels.symbols[labels.nspecial :] == ["0", "1"]
    for split, size in SIZES.items():
        inputs, targets = (
            data_utils.load_indexed_dataset(str(folder / part / split), dictionary)
            for part, dictionary in zip(("input0", "label"), dictionaries)
        )
        assert len(inputs) == len(targets) == size
        classes = [labels.string(ids) for ids in targets]
        assert classes.count("1") == size // 2
        for ids, label, (image, expected) in zip(inputs, classes, itertools.islice(stream, size)):
            assert [int(pixels[index]) for index in ids] == image.reshape(-1).tolist()
            assert label == expected
    stream.close()


def test_another_seed_gives_other_images(small_batch):
    images = [next(pathfinder.generate(6, seed, workers=1))[0] for seed in (1, 2)]
    assert (images[0] != images[1]).any()


def test_the_contact_sheet_shows_training_images(tmp_path, small_batch):
    folder = prepare(tmp_path / "out", SIZES, 6, seed=1, workers=1)
    sheet = np.asarray(Image.open(folder / "contact-sheet.png"))
    shown = {image.tobytes() for image in tiles(sheet)}
    examples = list(itertools.islice(pathfinder.generate(6, 1, 1), SIZES["train"]))
    for name in ("0", "1"):
        images = [image for image, label in examples if label == name]
        expected = [image.tobytes() for image in images[:24]]
        assert len(expected) == 24 and shown.issuperset(expected)
    assert (folder / "contact-sheet.png").stat().st_size < 300_000


def tiles(sheet):
    """The images of a sheet, in their own size."""
    side, scale = SIZE * 5, 5
    for top in (24, 24 + 4 * (side + 8) + 24):
        for row, column in itertools.product(range(4), range(6)):
            y, x = top + row * (side + 8) + 4, column * (side + 8) + 4
            yield sheet[y : y + side : scale, x : x + side : scale]


def test_main(tmp_path, monkeypatch, capsys, small_batch):
    options = "--train 6 --valid 2 --test 2 --contour-length 6 --seed 4 --workers 1"
    monkeypatch.setattr("sys.argv", ["pathfinder.py", "--out", str(tmp_path), *options.split()])
    pathfinder.main()
    assert "data-bin is ready for fairseq-train; see" in capsys.readouterr().out
    expected = prepare(tmp_path / "again", {"train": 6, "valid": 2, "test": 2}, 6, 4, 1)
    assert contents(tmp_path / "data-bin") == contents(expected)


def test_a_length_that_the_benchmark_has_not(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pathfinder.py", "--contour-length", "7"])
    with pytest.raises(SystemExit):
        pathfinder.main()
    assert "argument --contour-length: invalid choice: 7" in capsys.readouterr().err
