"""``scripts/prepare-*.sh`` on small archives that have the layout of the published ones."""

import gzip
import io
import tarfile

import pytest
from script_helpers import assert_survives_kills, binarized_lines, full_disk, lines, run, times

METADATA = """\
<url>http://www.ted.com/talks/lang/{lang}/some_talk.html</url>
<keywords>talks, science</keywords>
<talkid>{talk}</talkid>
<title>Ada Lovelace: Vortrag {talk}</title>
<description>TED Talk Subtitles {talk}</description>
{text}
"""

EVALUATION = """\
<?xml version="1.0" encoding="UTF-8"?>
<mteval>
<refset setid="{name}" srclang="de" trglang="{lang}" refid="ref">
<doc docid="69" genre="lectures">
<url>http://www.ted.com/talks/lang/{lang}/other_talk.html</url>
<description>TED Talk Subtitles</description>
<keywords>talks</keywords>
<talkid>69</talkid>
<title>Ein Titel</title>
<reviewer></reviewer>
<translator></translator>
{segments}
</doc>
</refset>
</mteval>
"""

EVALUATION_SETS = ["TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"]


def write_iwslt14(archive):
    """Three talks of 30 sentences, 6 of them bad, and evaluation sets of two sentences."""
    files = {}
    for lang, word in (("de", "Satz"), ("en", "Sentence")):
        talks = []
        for talk in (1, 2, 3):
            text = [f" {word} {talk} - {number}! " for number in range(28)]
            text.insert(5, "" if lang == "de" else "Not empty")
            text.insert(9, f"{word} " * (200 if talk < 3 else 10_000))
            talks.append(METADATA.format(lang=lang, talk=talk, text="\n".join(text)))
        files[f"train.tags.de-en.{lang}"] = "".join(talks)
        for name in EVALUATION_SETS:
            segments = f'<seg id="1"> {word} {name} – it’s &amp; so. </seg>\n<seg id="2"> </seg>'
            files[f"IWSLT14.{name}.de-en.{lang}.xml"] = EVALUATION.format(
                name=name, lang=lang, segments=segments
            )
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in {"README": "About IWSLT14", **files}.items():
            info = tarfile.TarInfo(f"de-en/{name}")
            content = text.encode("utf-8")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


@pytest.fixture(scope="module")
def iwslt14(tmp_path_factory):
    """A folder with ``de-en.tgz`` and what the script made of it, in ``out``, and said."""
    folder = tmp_path_factory.mktemp("iwslt14")
    write_iwslt14(folder / "de-en.tgz")
    result = run(
        *["prepare-iwslt14.sh", "--from", "de-en.tgz", "--out", "out"],
        *["--bpe-operations", 40, "--workers", 2],
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def test_iwslt14_training_text(iwslt14):
    """Titles and descriptions are text, other tags go, bad pairs go, every 23rd is for valid."""
    folder, output = iwslt14
    for lang, word in (("de", "satz"), ("en", "sentence")):
        text = []
        for talk in (1, 2, 3):
            text += [f"ada lovelace : vortrag {talk}", f"ted talk subtitles {talk}"]
            text += [f"{word} {talk} - {number} !" for number in range(28)]
        tokenized = folder / "out" / "tokenized"
        assert lines(tokenized / f"valid.{lang}") == text[22::23]
        del text[22::23]
        assert lines(tokenized / f"train.{lang}") == text
    assert "kept 90 pairs and dropped 3 with an empty side, 3 of more than 175 tokens" in output


def test_iwslt14_test_text(iwslt14):
    """The five evaluation sets follow one another; no sentence is dropped."""
    tokenized = iwslt14[0] / "out" / "tokenized"
    expected = [
        line
        for name in EVALUATION_SETS
        for line in (f"sentence {name.lower()} – it &apos;s &amp; amp ; so .", "")
    ]
    assert lines(tokenized / "test.en") == expected
    assert len(lines(tokenized / "test.de")) == len(expected)


def test_iwslt14_is_ready_for_fairseq(iwslt14):
    data_bin = iwslt14[0] / "out" / "data-bin"
    assert lines(data_bin / "dict.de.txt") == lines(data_bin / "dict.en.txt")
    for split in ("train", "valid", "test"):
        for lang in ("de", "en"):
            binarized = binarized_lines(data_bin, split, "de-en", lang)
            text = lines(data_bin.parent / "tokenized" / f"{split}.{lang}")
            assert len(binarized) == len(text)
            if split == "train":
                assert binarized == text


def test_a_second_run_does_nothing(iwslt14):
    folder, _ = iwslt14
    before = times(folder / "out")
    result = run(
        *["prepare-iwslt14.sh", "--from", folder / "de-en.tgz", "--out", folder / "out"],
        *["--bpe-operations", 40, "--workers", 1],
        cwd="/",
    )
    assert result.returncode == 0, result.stderr
    assert times(folder / "out") == before
    assert result.stdout.count("is up to date") == 5


def test_a_damaged_archive_ends_the_script_with_one_line(iwslt14, tmp_path):
    archive = (iwslt14[0] / "de-en.tgz").read_bytes()
    (tmp_path / "cut.tgz").write_bytes(archive[: len(archive) // 2])
    result = run("prepare-iwslt14.sh", "--from", "cut.tgz", "--out", "out", cwd=tmp_path)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("prepare-iwslt14.sh: error: ") and "cut.tgz is damaged" in last
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def write_captions(folder, **sizes):
    """Compressed files of *sizes* pairs each, under the names that Multi30k is published with."""
    folder.mkdir(exist_ok=True)
    for name, count in sizes.items():
        for lang, word in (("de", "Hund"), ("en", "dog dog dog")):
            text = [f"{word if name != 'train' else 'Dog'} {number}!" for number in range(count)]
            with gzip.open(folder / f"{name}.{lang}.gz", "wt", encoding="utf-8") as file:
                file.write("".join(line + "\n" for line in text))


def test_multi30k(tmp_path):
    """From a folder of compressed files; validation and test pairs are kept whatever they are."""
    write_captions(tmp_path / "raw", train=40, val=5, test_2016_flickr=6)
    result = run("prepare-multi30k.sh", "--from", "raw", "--bpe-operations", 20, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    out = tmp_path / "data" / "multi30k"
    assert lines(out / "tokenized" / "train.de") == [f"dog {n} !" for n in range(40)]
    assert lines(out / "tokenized" / "valid.en") == [f"dog dog dog {n} !" for n in range(5)]
    assert lines(out / "tokenized" / "test.de") == [f"hund {n} !" for n in range(6)]
    tests = {path.name.split(".")[0] for path in (out / "data-bin").glob("test*")}
    assert tests == {"test"}


def test_killed_at_each_step_it_leaves_the_same(tmp_path, monkeypatch):
    write_captions(tmp_path / "raw", train=40, val=5, test_2016_flickr=6)
    options = ["--from", "raw", "--bpe-operations", 20, "--workers", 1]
    assert_survives_kills(monkeypatch, "prepare-multi30k.sh", *options, cwd=tmp_path)


def test_a_full_disk_leaves_the_steps_that_are_complete(tmp_path):
    """And a message of one line; the same command goes on from there."""
    write_captions(tmp_path / "raw", train=400, val=5, test_2016_flickr=6)
    line = ["prepare-multi30k.sh", "--from", "raw", "--out", "out", "--bpe-operations", 20]
    with full_disk(5000):
        result = run(*line, cwd=tmp_path)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1] == (
        "prepare-multi30k.sh: error: out keeps what is complete, and the same command goes on from "
        "there: [Errno 27] File too large"
    )
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"raw", "plain", "tokenized"}
    result = run(*line, cwd=tmp_path)
    assert result.returncode == 0 and result.stdout.count("is up to date") == 3


@pytest.mark.slow
def test_iwslt14_killed_at_each_step_it_leaves_the_same(iwslt14, monkeypatch):
    options = ["--from", "de-en.tgz", "--bpe-operations", 40, "--workers", 1]
    assert_survives_kills(monkeypatch, "prepare-iwslt14.sh", *options, cwd=iwslt14[0])


@pytest.mark.parametrize("packed", [False, True])
def test_later_test_sets_of_multi30k(tmp_path, packed):
    """Those of which both languages are there, under a name that depends on no other."""
    raw = tmp_path / "raw"
    write_captions(raw, train=40, val=5, test_2016_flickr=6, test_2018_flickr=7, test_2017_mscoco=8)
    write_captions(raw, test_2017_flickr=3)
    (raw / "test_2017_flickr.de.gz").unlink()
    if packed:
        with tarfile.open(tmp_path / "raw.tar", "w") as tar:
            tar.add(raw, "task1/raw")
    source = "raw.tar" if packed else "raw"
    result = run(
        *["prepare-multi30k.sh", "--from", source, "--out", "out", "--bpe-operations", 20],
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    data_bin = tmp_path / "out" / "data-bin"
    tests = {path.name.split(".")[0] for path in data_bin.glob("test*")}
    assert tests == {"test", "test2", "test3"}
    for split, size in (("test", 6), ("test2", 7), ("test3", 8)):
        assert len(binarized_lines(data_bin, split, "de-en", "de")) == size
        text = lines(tmp_path / "out" / "tokenized" / f"{split}.en")
        assert text == [f"dog dog dog {n} !" for n in range(size)]
