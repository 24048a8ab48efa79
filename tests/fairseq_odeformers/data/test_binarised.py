"""Binarised data: the languages of sentence pairs, whatever their names, and complete files."""

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from fairseq_odeformers.data.binarised import check_complete, language_pair


def write(folder, source, target, *others):
    names = [f"dict.{lang}.txt" for lang in (source, target)]
    names += [f"train.{source}-{target}.{lang}.idx" for lang in (source, target)]
    for name in [*names, *others]:
        (folder / name).touch()


@pytest.mark.parametrize("source", ["de", "pt-br", "zh.hans", "a"])
@pytest.mark.parametrize("target", ["en", "en-us", "x-y-z"])
def test_the_languages_are_inferred_from_the_files(source, target, tmp_path):
    """This package and fairseq infer pairs of languages with hyphens or dots in their names."""
    others = "dict.nl.txt", "notes.2026-01.txt", f"test.2017-06.{source}-{target}.{source}.idx"
    write(tmp_path, source, target, *others)
    assert language_pair(tmp_path) == (source, target)
    assert tuple(data_utils.infer_language_pair(str(tmp_path))) == (source, target)


def test_a_language_with_a_hyphen_is_no_pair(tmp_path):
    """dict.pt-br.txt is not taken for a pair of the languages "pt" and "br"."""
    write(tmp_path, "pt", "pt-br")
    assert tuple(data_utils.infer_language_pair(str(tmp_path))) == ("pt", "pt-br")


def test_without_dictionaries_fairseq_infers_the_languages(tmp_path):
    (tmp_path / "train.de-en.de.idx").touch()
    assert language_pair(tmp_path) is None
    assert tuple(data_utils.infer_language_pair(str(tmp_path))) == ("de", "en")


def test_data_without_pairs_are_refused(tmp_path):
    (tmp_path / "dict.txt").touch()
    with pytest.raises(FileNotFoundError, match=f"^{tmp_path} has no sentence pairs, .*; pass"):
        data_utils.infer_language_pair(str(tmp_path))


@pytest.mark.parametrize(
    "name, message",
    [("train.bin", "bytes instead of 24; prepare"), ("train.idx", "prepare the data again")],
)
def test_a_truncated_file_is_named(name, message, tmp_path):
    builder = MMapIndexedDatasetBuilder(str(tmp_path / "train.bin"), dtype=np.int32)
    for length in (2, 4):
        builder.add_item(torch.arange(length))
    builder.finalize(str(tmp_path / "train.idx"))
    check_complete(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=f"^{path}.*{message}"):
        check_complete(tmp_path)
