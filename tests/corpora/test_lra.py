"""Data are found where they lie, splits are known, and preparation resumes."""

import pytest
import torch
from lra_release import ARCHIVES, listops, retrieval, write_archive, write_folder
from script_helpers import contents, refusal, times

from fairseq_odeformers.corpora import lra
from fairseq_odeformers.corpora.lra import TASKS, locate, prepare, split_randomly


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    for name, files in ARCHIVES.items():
        write_archive(folder / name, files())
    return folder


@pytest.fixture(scope="module")
def prepared(archives, tmp_path_factory):
    out = tmp_path_factory.mktemp("prepared")
    assert prepare(list(TASKS), archives, out, 2) == [out / f"{task}-bin" for task in TASKS]
    return out


@pytest.mark.parametrize("split", [2, 7, 12])
def test_the_result_does_not_depend_on_interruptions_and_workers(
    split, archives, prepared, tmp_path, monkeypatch
):
    calls = []

    def interrupt(folder, *args):
        calls.append(folder)
        if len(calls) == split:
            raise KeyboardInterrupt
        return write_split(folder, *args)

    write_split = lra.write_split
    with monkeypatch.context() as patch:
        patch.setattr(lra, "write_split", interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare(list(TASKS), archives, tmp_path, workers=1)
    done = [tmp_path / f"{task}-bin" for task in list(TASKS)[: (split - 1) // 3]]
    assert sorted(tmp_path.glob("*-bin*")) == sorted(done)
    before = [times(folder) for folder in done]
    prepare(list(TASKS), archives, tmp_path, workers=1)
    assert [times(folder) for folder in done] == before
    assert contents(tmp_path) == contents(prepared)


def results(out):
    """The data sets below a folder, without how they were made."""
    files = contents(out).items()
    return {
        path: content
        for path, content in files
        if path.parts[0].endswith("-bin") and path.name != "recipe.json"
    }


def test_unpacked_data_are_found_and_preferred(prepared, tmp_path):
    for name, files in ARCHIVES.items():
        write_folder(tmp_path / "source", files())
        (tmp_path / "source" / name).write_bytes(b"not looked at")
    prepare(list(TASKS), tmp_path / "source", tmp_path / "out", workers=1)
    assert results(tmp_path / "out") == results(prepared)
    assert not (tmp_path / "out" / "raw").exists()


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
    for files in ARCHIVES.values():
        write_folder(tmp_path, files())
    prepare([task], tmp_path / folder, tmp_path / "out", workers=1)
    expected = {path: data for path, data in results(prepared).items() if task in path.parts[0]}
    assert results(tmp_path / "out") == expected


def test_an_archive_may_be_given_whatever_its_name(prepared, tmp_path):
    archive = write_archive(tmp_path / "data.tar", listops())
    assert locate(archive, TASKS["listops"]) == archive
    prepare(["listops"], archive, tmp_path / "out", workers=1)
    assert results(tmp_path / "out").items() <= results(prepared).items()


def test_other_files_are_another_result(archives, tmp_path):
    """What is prepared is kept for the same archive only."""
    archive = write_archive(tmp_path / "lra_release.gz", listops())
    [folder] = prepare(["listops"], archive, tmp_path / "out", workers=1)
    before = times(folder)
    prepare(["listops"], archive, tmp_path / "out", workers=1)
    assert times(folder) == before
    files = {name: content.replace(b" 7 ", b" 7 0 ") for name, content in listops().items()}
    write_archive(archive, files)
    prepare(["listops"], archive, tmp_path / "out", workers=1)
    assert times(folder) != before


def test_published_archives_are_fetched(tmp_path, archives, prepared, monkeypatch):
    """Each once, and checked where its SHA-256 is known."""
    fetched = []

    def download(url, path, checksum):
        if not path.exists():
            fetched.append((url, checksum))
            path.parent.mkdir(exist_ok=True)
            path.write_bytes((archives / path.name).read_bytes())

    monkeypatch.setattr(lra, "download", download)
    prepare(list(TASKS), None, tmp_path, workers=1)
    assert results(tmp_path) == results(prepared)
    assert sorted(checksum is None for _, checksum in fetched) == [False, False, True]
    assert all(len(bytes.fromhex(checksum)) == 32 for _, checksum in fetched if checksum)


@pytest.mark.parametrize("size", [30, 57, 1000])
def test_random_splits(size):
    """Tenths that do not overlap, drawn as S4 does."""
    splits = split_randomly(list(range(size)), ("train", "valid", "test"))
    assert [len(splits[name]) for name in ("valid", "test")] == [size // 10] * 2
    order = torch.randperm(size, generator=torch.Generator().manual_seed(42)).tolist()
    assert [*splits["train"], *splits["valid"], *splits["test"]] == order


def test_other_tasks_are_prepared_when_some_cannot_be(tmp_path):
    files = {**ARCHIVES["lra_release.gz"](), **ARCHIVES["cifar-10-binary.tar.gz"]()}
    files = {name: content for name, content in files.items() if "aan" not in name}
    files["cifar-10-batches-bin/data_batch_3.bin"] = b"\x0a" + bytes(3072)
    archive = write_archive(tmp_path / "data.tar", files)
    with pytest.raises(ValueError) as caught:
        prepare(list(TASKS), archive, tmp_path / "out", workers=1)
    messages = str(caught.value).split("; ")
    assert len(messages) == 3
    assert messages[0].startswith(f"text: {archive} has no test/neg/")
    assert messages[1] == (
        f"retrieval: {archive} has no new_aan_pairs.eval.tsv, new_aan_pairs.test.tsv, "
        "new_aan_pairs.train.tsv"
    )
    assert messages[2] == (
        f"image: {tmp_path}/out/raw/image/data_batch_3.bin, record 1: class 10, expected 0 to 9"
    )
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["listops-bin", "pathfinder-bin", "raw"]


def test_missing_data_are_named(tmp_path):
    with pytest.raises(ValueError, match="has no train/pos and no aclImdb_v1.tar.gz"):
        locate(tmp_path, TASKS["text"])


def test_a_split_without_examples_is_an_error(tmp_path):
    files = {**retrieval(), "lra_release/lra_release/tsv_data/new_aan_pairs.eval.tsv": b""}
    archive = write_archive(tmp_path / "lra_release.gz", files)
    with pytest.raises(ValueError, match="retrieval: .*/raw/retrieval has no examples for valid"):
        prepare(["retrieval"], archive, tmp_path / "out", workers=1)
    assert not list((tmp_path / "out").glob("retrieval-bin*"))


@pytest.mark.parametrize(
    "options, message",
    [
        (["imdb"], "TASK imdb: choose from listops, text, retrieval, pathfinder, image"),
        (["--from", "absent"], "--from absent: no such file or folder"),
        (
            ["--from", ".", "--out", "."],
            "--from . overlaps raw, made by this script; choose another --out",
        ),
        (["--workers", "0"], "argument --workers: invalid positive_int value: '0'"),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = refusal(lra.main, options, monkeypatch, capsys)
    assert line == f"prepare-lra.sh: error: {message}"
    assert not list(tmp_path.iterdir())
