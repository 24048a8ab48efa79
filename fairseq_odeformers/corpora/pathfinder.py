"""Pathfinder (Linsley et al., 2018), 32 x 32 pixels as in the Long Range Arena (Tay et al., 2021).

An image shows two long dashed contours, short ones as distractors, and two dots. Its class is 1 if
one contour joins the dots, and 0 if they are on different contours; nothing else differs between
the classes.

A contour is a chain of segments of equal length, each with a dash in its middle. From one to the
next the direction turns by a random angle, whose density is its squared cosine: by less than 90
degrees. The long contours have 14 segments (or 9, or 6); the first one starts near the centre, the
second one 7 pixels from there. One dot is where one of them starts, the other where one of them
ends. The distractors have a third of the segments; of 5 (or 6, or 10), those are drawn that find a
place. In all this the Long Range Arena is followed. So that a person can trace a contour in so few
pixels, distances are kept more strictly: a dash is 1.4 pixels or less from the next one of its
contour, and 2 pixels or more from all others, which are 1.5 pixels or more from a dot.

The 1,024 pixels of an image, row by row, are its tokens, and their 256 intensities the vocabulary.
There is no token for the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, count, islice
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np

from fairseq_odeformers.corpora.cli import generator_parser, reporting
from fairseq_odeformers.corpora.processes import map_in_processes
from fairseq_odeformers.data.classification import (
    INTENSITIES,
    make_dictionary,
    write_dictionaries,
    write_splits,
)
from fairseq_odeformers.files import build

# Points are complex numbers, x + iy, in pixels from the upper left corner.
SIZE = 32
BORDER = 1.5  # free of contours
SEGMENT = 3.2
DASH = 0.8  # without its round ends
LINE_RADIUS = 0.5
DOT_RADIUS = 1.5
DISTANCE = 3  # between segments that do not follow each other
END_DISTANCE = 3.5  # from the ends of a contour to such segments
START_DISTANCE = 7  # between the long contours
START_REGION = 6  # side of the square in the centre where the first contour starts
DISTRACTOR_SEGMENTS = 20  # of all together
LENGTHS = (6, 9, 14)  # segments of the long contours
REACH = 3  # from the middle of a dash or dot, pixels that it may touch

BATCH = 1024  # images begun at a time; what a seed gives depends on it
ATTEMPTS = 20  # to find a place for a contour
DIRECTIONS = 16  # tried for a segment before the attempt is given up

NOWHERE = complex(np.nan, np.nan)
TURNS = np.linspace(-np.pi / 2, np.pi / 2, 1001)
TURNS_CUMULATIVE = 0.5 + (TURNS + np.sin(2 * TURNS) / 2) / np.pi

DICTIONARY = make_dictionary(INTENSITIES)
CLASSES = ("0", "1")

SHEET = "contact-sheet.png"
TITLES = {"1": "one contour joins the dots", "0": "the dots are on different contours"}
SHEET_ROWS, SHEET_COLUMNS = 4, 6  # of images of a class
SHEET_SCALE = 5


class Scenes(NamedTuple):
    """What some images show.

    Attributes:
        joints: of the contours, the two long ones first; each is followed by NaN, and is NaN itself
            if it found no place [images, joints].
        dots: [images, 2].
        labels: 1 if a contour joins the dots, else 0 [images].
    """

    joints: np.ndarray
    dots: np.ndarray
    labels: np.ndarray


def draw(segments: int, rng: np.random.Generator) -> Scenes:
    """Random scenes, the classes in turn: of ``BATCH`` that are begun, those that find room.

    Args:
        segments: of the long contours.
    """
    joints = np.empty((BATCH, 0), dtype=np.complex64)
    first = place(segments, _in_square(START_REGION, BATCH, rng), joints, rng)
    joints = _append(joints, first)
    angles = rng.uniform(-np.pi, np.pi, (BATCH, ATTEMPTS))
    second = place(segments, first[:, :1] + START_DISTANCE * _unit(angles), joints, rng)
    joints = _append(joints, second)

    room = np.flatnonzero(~np.isnan(second[:, 0]))
    room = room[: len(room) // 2 * 2]
    joints, long = joints[room], np.stack([first, second])[:, room]
    for _ in range(DISTRACTOR_SEGMENTS // (segments // 3)):
        starts = _in_square(SIZE - 2 * BORDER, len(room), rng)
        joints = _append(joints, place(segments // 3, starts, joints, rng))

    images = np.arange(len(room))
    labels = images % 2
    start = rng.integers(2, size=len(room))
    end = np.where(labels == 1, start, 1 - start)
    return Scenes(joints, np.stack([long[start, images, 0], long[end, images, -1]], 1), labels)


def place(
    segments: int, starts: np.ndarray, joints: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """A further contour for each image.

    Args:
        starts: where it may start, in the order of attempts [images, attempts].
        joints: of the other contours, with NaN between them [images, joints].

    Returns:
        Its joints; NaN in images where no attempt succeeded [images, segments + 1].
    """
    contours = np.full((len(starts), segments + 1), NOWHERE, dtype=np.complex64)
    beyond = np.pad(joints, ((0, 0), (1, 1)), constant_values=NOWHERE)
    ends = np.where(np.isnan(beyond[:, :-2]) | np.isnan(beyond[:, 2:]), joints, NOWHERE)
    for attempt in starts.T:
        todo = np.flatnonzero(np.isnan(contours[:, 0]))
        images, grown = grow(segments, attempt[todo], joints[todo], rng)
        todo = todo[images]
        hidden = (
            _near(grown[:, [0, -1]], joints[todo], END_DISTANCE).any(1)
            | _near(ends[todo], grown, END_DISTANCE).any(1)
            | _near(grown[:, :1], grown[:, 3:], END_DISTANCE).any(1)
            | _near(grown[:, -1:], grown[:, :-3], END_DISTANCE).any(1)
        )
        contours[todo[~hidden]] = grown[~hidden]
    return contours


def grow(
    segments: int, starts: np.ndarray, joints: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Extend contours from where they start until they are complete or find no room.

    Args:
        starts: [images].
        joints: of other contours [images, joints].

    Returns:
        The images where the contour is complete, and its joints [complete, segments + 1].
    """
    contours, headings = starts[:, None], rng.uniform(-np.pi, np.pi, len(starts))
    images = np.flatnonzero(_inside(starts) & ~_near(contours, joints, END_DISTANCE)[:, 0])
    contours, headings = contours[images], headings[images]
    for _ in range(segments):
        turns = np.interp(rng.random((len(images), DIRECTIONS)), TURNS_CUMULATIVE, TURNS)
        headings = headings[:, None] + turns
        starts, ends = contours[:, -1:], contours[:, -1:] + SEGMENT * _unit(headings)
        others = np.concatenate([joints[images], contours[:, :-1]], axis=1)
        sideways = distance(others[:, None], starts[:, :, None], ends[:, :, None]) < DISTANCE
        free = _inside(ends) & ~_near(ends, others, DISTANCE) & ~sideways.any(-1)
        extended = np.flatnonzero(free.any(1))
        choice = free.argmax(1)[extended]
        images, headings = images[extended], headings[extended, choice]
        contours = np.append(contours[extended], ends[extended, choice][:, None], axis=1)
    return images, contours


def distance(points: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Distance of points from segments; NaN if one is NaN."""
    along, away = ends - starts, points - starts
    square = np.maximum(along.real**2 + along.imag**2, 1e-6)  # a dot is a segment without length
    position = np.clip((away * along.conj()).real / square, 0, 1)
    return np.abs(away - position * along)


def _near(points: np.ndarray, joints: np.ndarray, limit: float) -> np.ndarray:
    """Whether points [images, points] are near any of the segments between joints."""
    starts, ends = joints[:, None, :-1], joints[:, None, 1:]
    return (distance(points[:, :, None], starts, ends) < limit).any(-1)


def _inside(points: np.ndarray) -> np.ndarray:
    x, y, last = points.real, points.imag, SIZE - BORDER
    return (x > BORDER) & (x < last) & (y > BORDER) & (y < last)


def _in_square(side: float, images: int, rng: np.random.Generator) -> np.ndarray:
    """Points in a square in the centre [images, ``ATTEMPTS``]."""
    x, y = SIZE / 2 + rng.uniform(-side / 2, side / 2, (2, images, ATTEMPTS)).astype(np.float32)
    return x + 1j * y


def _unit(angles: np.ndarray) -> np.ndarray:
    return np.exp(1j * angles.astype(np.float32))


def _append(joints: np.ndarray, contours: np.ndarray) -> np.ndarray:
    """Joints and those of one more contour, followed by NaN."""
    return np.concatenate([joints, contours, np.full_like(contours[:, :1], NOWHERE)], axis=1)


def render(scenes: Scenes) -> np.ndarray:
    """Intensities, 0 to 255, of the pixels [images, rows, columns]."""
    images = np.zeros((len(scenes.dots), SIZE + 2 * REACH, SIZE + 2 * REACH), dtype=np.float32)
    for start, end in zip(scenes.joints[:, :-1].T, scenes.joints[:, 1:].T):
        middle, half = (start + end) / 2, (end - start) / SEGMENT * DASH / 2
        _paint(images, middle - half, middle + half, LINE_RADIUS)
    for dot in scenes.dots.T:
        _paint(images, dot, dot, DOT_RADIUS)
    return np.rint(images[:, REACH:-REACH, REACH:-REACH] * 255).astype(np.uint8)


def _paint(images: np.ndarray, starts: np.ndarray, ends: np.ndarray, radius: float) -> None:
    """Add a thick line with round ends to images that are ``REACH`` larger on all sides."""
    seen = np.flatnonzero(~np.isnan(starts))
    starts, ends = starts[seen, None, None], ends[seen, None, None]
    middle, around = (starts + ends) / 2, np.arange(-REACH, REACH + 1)
    x = np.floor(middle.real).astype(int) + around
    y = np.floor(middle.imag).astype(int) + around[:, None]
    covered = radius + 0.5 - distance(x + 0.5 + 1j * (y + 0.5), starts, ends)
    pixels = seen[:, None, None], y + REACH, x + REACH
    images[pixels] = np.maximum(images[pixels], np.clip(covered, 0, 1))


def generate(segments: int, seed: int, workers: int) -> Iterator[tuple[np.ndarray, str]]:
    """Images [rows, columns] with their classes, which alternate, without end.

    They do not depend on the number of processes, *workers*.
    """
    for examples in map_in_processes(_drawing, (segments, seed), count(), workers, chunk_size=1):
        yield from examples


def _drawing(segments: int, seed: int) -> Callable[[int], list[tuple[np.ndarray, str]]]:
    def images(number: int) -> list[tuple[np.ndarray, str]]:
        scenes = draw(segments, np.random.default_rng([seed, number]))
        return [*zip(render(scenes), (CLASSES[label] for label in scenes.labels))]

    return images


def contact_sheet(examples: Sequence[tuple[np.ndarray, str]]):
    """An image of the first of either class, enlarged, below the name of the class."""
    from PIL import Image, ImageDraw

    margin, title = 4, 24
    side = SIZE * SHEET_SCALE + 2 * margin
    height = title + SHEET_ROWS * side
    sheet = Image.new("L", (SHEET_COLUMNS * side, len(TITLES) * height), 64)
    drawing = ImageDraw.Draw(sheet)
    for index, (name, text) in enumerate(TITLES.items()):
        drawing.text((margin, index * height + 2), f"{name}: {text}", fill=255, font_size=16)
        images = [image for image, label in examples if label == name]
        for place, image in enumerate(images[: SHEET_ROWS * SHEET_COLUMNS]):
            row, column = divmod(place, SHEET_COLUMNS)
            large = Image.fromarray(image).resize(2 * [SIZE * SHEET_SCALE], Image.NEAREST)
            sheet.paste(
                large, (column * side + margin, index * height + title + row * side + margin)
            )
    return sheet


def encode(example: tuple[np.ndarray, str]) -> tuple[tuple[np.ndarray], str]:
    """Image and class as ``write_split`` takes them."""
    image, label = example
    return (image.reshape(-1).astype(int) + DICTIONARY.nspecial,), label


def prepare(out: Path, sizes: Mapping[str, int], segments: int, seed: int, workers: int) -> Path:
    """Generate a data set, ``data-bin`` in *out*, and return it.

    Its first training images are also in ``contact-sheet.png``, for a person to look at.

    Args:
        sizes: number of examples of each split.
        segments: of the long contours.
    """

    def make(folder: Path) -> None:
        write_dictionaries(folder, 1, DICTIONARY, CLASSES)
        with closing(generate(segments, seed, workers)) as examples:
            shown = list(islice(examples, min(sizes["train"], 2 * SHEET_ROWS * SHEET_COLUMNS)))
            contact_sheet(shown).save(folder / SHEET, optimize=True)
            write_splits(folder, sizes, map(encode, chain(shown, examples)))

    build(out / "data-bin", {"sizes": sizes, "segments": segments, "seed": seed}, make)
    return out / "data-bin"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; an error ends the program with a message of one line."""
    parser = generator_parser(
        "pathfinder",
        "Generate Pathfinder images of 32 x 32 pixels.",
        (160_000, 20_000, 20_000),
    )
    parser.add_argument(
        "--contour-length",
        type=int,
        choices=LENGTHS,
        default=LENGTHS[-1],
        help="segments of the long contours; the Long Range Arena's easy, intermediate and hard "
        "images have 6, 9 and 14",
    )
    args = parser.parse_args(arguments)
    with reporting(parser.prog, args.out, "PIL"):
        sizes = {"train": args.train, "valid": args.valid, "test": args.test}
        data_bin = prepare(args.out, sizes, args.contour_length, args.seed, args.workers)
        logging.info(f"{data_bin} is ready for fairseq-train; see {data_bin / SHEET}")
