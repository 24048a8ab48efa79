"""The published files become the splits, later test sets where they are there."""

import pytest
from published import multi30k, write_archive, write_folder
from script_helpers import binarized_lines, lines

from fairseq_odeformers.corpora.multi30k import main


@pytest.mark.parametrize("packed", [False, True])
def test_splits_that_both_languages_have(tmp_path, packed):
    """A test set has a name that depends on no other."""
    sizes = {"val": 5, "test_2016_flickr": 6, "test_2017_flickr": 3, "test_2018_flickr": 7}
    files = multi30k(train=40, **sizes, test_2017_mscoco=8)
    del files["test_2017_flickr.de.gz"]
    write, name = (write_archive, "raw.tar") if packed else (write_folder, "raw")
    source, out = write(tmp_path / name, files), tmp_path / "out"
    main(["--from", str(source), "--out", str(out), "--bpe-operations", "20", "--workers", "1"])
    assert lines(out / "tokenized" / "train.de") == [f"dog {n} !" for n in range(40)]
    tests = {path.name.split(".")[0] for path in (out / "data-bin").glob("test*")}
    assert tests == {"test", "test2", "test3"}
    for split, size in (("valid", 5), ("test", 6), ("test2", 7), ("test3", 8)):
        assert len(binarized_lines(out / "data-bin", split, "de-en", "de")) == size
        text = [f"dog dog dog {n} !" for n in range(size)]
        assert lines(out / "tokenized" / f"{split}.en") == text
