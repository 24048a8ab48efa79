"""Small data that have the layout of those published for the Long Range Arena."""

import io
import tarfile

import numpy as np
from PIL import Image

ROOT = "lra_release/lra_release"
PATHFINDER = f"{ROOT}/pathfinder32/curv_contour_length_14"


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def picture(batch, number):
    """A picture that no other image has."""
    return (np.arange(32 * 32).reshape(32, 32) * (number + 3) + 7 * batch) % 251


def listops():
    """Binary trees; the answer of line n is n modulo 10."""
    return {
        f"{ROOT}/listops-1000/basic_{split}.tsv": "\n".join(
            [
                "Source\tTarget",
                *(f"( ( ( [SM {n} ) 7 ) ] )\t{(n + 7) % 10}" for n in range(size)),
                "",
            ]
        ).encode()
        for split, size in (("train", 8), ("val", 3), ("test", 2))
    }


def retrieval():
    return {
        f"{ROOT}/tsv_data/new_aan_pairs.{split}.tsv": "".join(
            f"{n % 2}.0\tP{n}\tC{n}\tb\"{split}\\n\"\tb'é {n}'\n" for n in range(size)
        ).encode()
        for split, size in (("train", 7), ("eval", 3), ("test", 4))
    }


def pathfinder():
    """Thirty images in three folders; line n of the metadata has class n modulo 2."""
    files = {
        f"{ROOT}/pathfinder64/curv_contour_length_14/imgs/0/sample_0.png": b"of another size",
        f"{ROOT}/pathfinder32/curv_baseline/imgs/0/sample_172.png": b"",
        f"{ROOT}/pathfinder32/curv_baseline/metadata/0.npy": b"of another level",
    }
    for batch in (10, 2, 0):
        lines = []
        for number in range(10):
            files[f"{PATHFINDER}/imgs/{batch}/sample_{number}.png"] = png(picture(batch, number))
            lines.append(f"imgs/{batch} sample_{number}.png {number} {number % 2} 1.0 14 4 2\n")
        files[f"{PATHFINDER}/metadata/{batch}.npy"] = "".join(lines).encode()
    return files


def imdb():
    """Seven reviews to train with, four to test with, and one without a class."""
    files = {"aclImdb/train/unsup/0_0.txt": b"unknown", "aclImdb/train/urls_pos.txt": b"http://"}
    for split, sizes in (("train", {"pos": 3, "neg": 4}), ("test", {"pos": 2, "neg": 2})):
        for label, size in sizes.items():
            for n in range(size):
                files[f"aclImdb/{split}/{label}/{n}_7.txt"] = (
                    f"{split} {label}<br />\t{n}é".encode()
                )
    return files


def cifar10():
    """Four images a training file, three to test with; record n has class n, and is grey n."""
    files = {"cifar-10-batches-bin/batches.meta.txt": b"airplane\n"}
    for name, size in [*((f"data_batch_{n}", 4) for n in range(1, 6)), ("test_batch", 3)]:
        files[f"cifar-10-batches-bin/{name}.bin"] = b"".join(
            bytes([n, *[n] * 3072]) for n in range(size)
        )
    return files


ARCHIVES = {
    "lra_release.gz": lambda: {**listops(), **retrieval(), **pathfinder()},
    "aclImdb_v1.tar.gz": imdb,
    "cifar-10-binary.tar.gz": cifar10,
}


def write_archive(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def write_folder(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
