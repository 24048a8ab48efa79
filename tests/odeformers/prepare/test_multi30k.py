"""Multi30k has the test sets of its source."""

from published import multi30k, write_folder
from script_helpers import binarized_lines, lines


def test_multi30k_has_the_test_sets_of_both_languages(prepare, tmp_path):
    """The name of a test set does not depend on the others."""
    sizes = {"val": 5, "test_2016_flickr": 6, "test_2017_flickr": 3, "test_2018_flickr": 7}
    files = multi30k(train=40, **sizes, test_2017_mscoco=8)
    del files["test_2017_flickr.de.gz"]
    prepare("multi30k --bpe-operations 20", write_folder(tmp_path / "raw", files))
    tokenized, data = prepare.out / "tokenized", prepare.out / "data-bin"
    assert lines(tokenized / "train.de") == [f"dog {n} !" for n in range(40)]
    assert {path.name.split(".")[0] for path in data.glob("test*")} == {"test", "test2", "test3"}
    for split, size in (("valid", 5), ("test", 6), ("test2", 7), ("test3", 8)):
        assert len(binarized_lines(data, split, "de-en", "de")) == size
        assert lines(tokenized / f"{split}.en") == [f"dog dog dog {n} !" for n in range(size)]
