"""Small data sets in the published layouts: files by their names."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
from PIL import Image

ROOT = "lra_release/lra_release"


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def picture(batch, number, width=32):
    """A picture that differs from all other images."""
    return (np.arange(width * width).reshape(width, width) * (number + 3) + 7 * batch) % 251


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


def pathfinder(width=32):
    """Thirty images in three folders; line n of the metadata has class n modulo 2."""
    folder = f"{ROOT}/pathfinder{width}/curv_contour_length_14"
    files = {
        f"{ROOT}/pathfinder64/curv_contour_length_14/imgs/0/sample_0.png": b"of another size",
        f"{ROOT}/pathfinder32/curv_baseline/imgs/0/sample_172.png": b"",
        f"{ROOT}/pathfinder32/curv_baseline/metadata/0.npy": b"of another level",
    }
    for batch in (10, 2, 0):
        lines = []
        for number in range(10):
            image = png(picture(batch, number, width))
            files[f"{folder}/imgs/{batch}/sample_{number}.png"] = image
            lines.append(f"imgs/{batch} sample_{number}.png {number} {number % 2} 1.0 14 4 2\n")
        files[f"{folder}/metadata/{batch}.npy"] = "".join(lines).encode()
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
    """Four images per training file, three to test with; record n has class n and grey level n."""
    files = {"cifar-10-batches-bin/batches.meta.txt": b"airplane\n"}
    for name, size in [*((f"data_batch_{n}", 4) for n in range(1, 6)), ("test_batch", 3)]:
        files[f"cifar-10-batches-bin/{name}.bin"] = b"".join(
            bytes([n, *[n] * 3072]) for n in range(size)
        )
    return files


LRA = {
    "lra_release.gz": lambda: {**listops(), **retrieval(), **pathfinder(), **pathfinder(128)},
    "aclImdb_v1.tar.gz": imdb,
    "cifar-10-binary.tar.gz": cifar10,
}

TED = """\
<url>http://www.ted.com/talks/lang/{lang}/some_talk.html</url>
<keywords>talks, science</keywords>
<talkid>{talk}</talkid>
<title>Ada Lovelace: Vortrag {talk}</title>
<description>TED Talk Subtitles {talk}</description>
{text}
"""
EVALUATION_SETS = ["TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"]


def iwslt14():
    """Three talks of 30 sentences, 6 of them bad, and evaluation sets of two sentences."""
    files = {"de-en/README": b"About IWSLT14"}
    for lang, word in (("de", "Satz"), ("en", "Sentence")):
        talks = []
        for talk in (1, 2, 3):
            text = [f" {word} {talk} - {number}! " for number in range(28)]
            text.insert(5, "" if lang == "de" else "Not empty")
            text.insert(9, f"{word} " * (200 if talk < 3 else 10_000))
            talks.append(TED.format(lang=lang, talk=talk, text="\n".join(text)))
        files[f"de-en/train.tags.de-en.{lang}"] = "".join(talks).encode()
        for name in EVALUATION_SETS:
            files[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = (
                f"<mteval>\n<title>Ein Titel</title>\n<talkid>69</talkid>\n"
                f'<seg id="1"> {word} {name} – it’s &amp; so. </seg>\n<seg id="2"> </seg>\n'
            ).encode()
    return files


def multi30k(**sizes):
    """Compressed files of *sizes* pairs each."""
    files = {}
    for name, count in sizes.items():
        for lang, word in (("de", "Hund"), ("en", "dog dog dog")):
            lines = (f"{word if name != 'train' else 'Dog'} {number}!\n" for number in range(count))
            files[f"{name}.{lang}.gz"] = gzip.compress("".join(lines).encode())
    return files


WMT14 = {  # archives of both language pairs, with unneeded files
    "training-parallel-europarl-v7.tgz": [
        *("training/europarl-v7.cs-en.en", "training/europarl-v7.de-en.de"),
        *(f"training/europarl-v7.{pair}" for pair in ("de-en.en", "fr-en.en", "fr-en.fr")),
    ],
    "training-parallel-commoncrawl.tgz": [
        "commoncrawl.de-en.annotation",
        *(f"commoncrawl.{pair}" for pair in ("de-en.de", "de-en.en", "fr-en.en", "fr-en.fr")),
    ],
    "training-parallel-nc-v12.tgz": [
        f"training/news-commentary-v12.de-en.{lang}" for lang in ("de", "en")
    ],
    "training-parallel-un.tgz": [f"un/undoc.2000.fr-en.{lang}" for lang in ("en", "fr")],
    "training-parallel-nc-v9.tgz": [
        f"training/news-commentary-v9.fr-en.{lang}" for lang in ("en", "fr")
    ],
    "training-giga-fren.tar": [f"giga-fren.release2.fixed.{lang}.gz" for lang in ("en", "fr")],
    "dev.tgz": [f"dev/newstest2013.{lang}" for lang in ("de", "en", "fr")],
    "test-full.tgz": [
        f"test-full/newstest2014-{name}.sgm"
        for name in ("deen-src.en", "deen-ref.de", "deen-src.de", "fren-src.en", "fren-ref.fr")
    ],
}
SENTENCES = {
    "en": "It’s “well-known” no. {} in {}.",
    "de": "Das „wohl-bekannte“ Nr. {} in {}.",
    "fr": "C’est le « bien-connu » n° {} dans {}.",
}


def long_pairs(lang):
    """A sentence of 81 tokens, one of 251, and the sides of a ratio of 2 and of 9.5."""
    return [" ".join(["word"] * n) for n in ((81, 251, 4, 2) if lang == "en" else (80, 250, 8, 19))]


def wmt14(archive):
    """The files of an archive; those of europarl have pairs that the cleaning drops."""
    files = {}
    for name in WMT14[archive]:
        stem, lang = name.removesuffix(".gz").removesuffix(".sgm").rsplit(".", 1)
        corpus = stem.rsplit("/", 1)[-1].split(".")[0].split("-")[0]
        lines = [SENTENCES.get(lang, "").format(number, corpus) for number in range(30)]
        if corpus == "europarl":
            lines += ["", *long_pairs(lang)]
        if name.endswith(".sgm"):
            segments = (f'<seg id="{n}">{line}</seg>' for n, line in enumerate(lines[:4], start=1))
            lines = ["<refset setid='newstest2014'>", '<doc docid="1">', *segments, "</doc>"]
        content = "".join(line + "\n" for line in lines).encode()
        files[name] = gzip.compress(content) if name.endswith(".gz") else content
    return files


def write_wmt14(folder):
    folder.mkdir()
    for name in WMT14:
        write_archive(folder / name, wmt14(name))
    return folder


PTB = {
    "train": ["the <unk> rose N points", "<unk> of the N", "the end"] * 50,
    "valid": ["the points of <unk> rose", "a N"],
    "test": ["the end", "<unk>", "no end"],
}


def ptb():
    """The words and, before them, the characters, with spaces around each line."""
    return {
        f"./simple-examples/data/ptb.{prefix}{split}.txt": "".join(
            f" {line.replace(' ', separator)} \n" for line in lines
        ).encode()
        for prefix, separator in (("char.", "_"), ("", " "))
        for split, lines in PTB.items()
    }


def wikitext103():
    """Articles of a heading and paragraphs, with blank lines and spaces around each line."""
    lines = {
        "train": ["", " = One = ", "", " the first @-@ rate <unk> ", " the end "],
        "valid": ["", " = Two = ", " the other <unk> "],
        "test": [" the @-@ end "],
    }
    return {
        f"wikitext-103/wiki.{split}.tokens": "".join(f"{line}\n" for line in text).encode()
        for split, text in lines.items()
    }


def write_archive(path, files):
    """A zip archive if its name says so, otherwise a tar archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def write_folder(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
