"""Properties of every corpus: no work is repeated, and other files give another result."""

import pytest
from published import iwslt14, ptb, retrieval, wikitext103, write_archive, write_folder
from script_helpers import contents, times


def files(names, text, header=""):
    content = header + "".join(text.format(n) for n in range(40))
    return {name: content.encode() for name in names.split()}


CORPORA = {  # options, the files of a source, and a word of them
    "glue": (
        "RTE --bpe-operations 60",
        files(
            "RTE/train.tsv RTE/dev.tsv RTE/test.tsv",
            "0\tfirst {0} of it\tsecond {0}\tentailment\n1\tno {0}\tof {0}\tnot_entailment\n",
            header="index\tsentence1\tsentence2\tlabel\n",
        ),
        b"first",
    ),
    "iwslt14": ("--bpe-operations 40", iwslt14(), b"Sentence"),
    "lm": ("", files("train.txt valid.txt test.txt", "the {0}th number\n"), b"number"),
    "lra": ("retrieval", retrieval(), b"eval"),
    "parallel": (
        "-s de -t en --bpe-operations 30",
        files("train.de train.en valid.de valid.en test.de test.en", "number {0} of {0}\n"),
        b"number",
    ),
    "ptb": ("", ptb(), b"points"),
    "text-classification": (
        "tsv --vocab-size 60",
        files("train.tsv test.tsv", "no\ttext {0} of it\nyes\tthe {0}th one\n"),
        b"text",
    ),
    "wikitext103": ("", wikitext103(), b"end"),
}


@pytest.mark.parametrize("corpus", CORPORA)
def test_the_same_files_are_prepared_once(corpus, prepare, tmp_path):
    """A result does not depend on packing and workers, but on the content of the files;
    other files need another folder.

    Warnings come when a result is made.
    """
    options, packed, word = CORPORA[corpus]

    def run(source, workers):
        log = prepare(f"{corpus} {options}", source, workers=workers)
        (data,) = prepare.out.glob("*-bin")
        return log, data, times(data)

    folder = write_folder(tmp_path / "folder", packed)
    first, data, made = run(folder, 1)
    before = contents(data)
    assert "checking the data" in first
    archive = write_archive(tmp_path / "packed.tgz", packed)
    said, *again = run(folder if corpus == "parallel" else archive, 2)
    assert again == [data, made]
    assert "checking the data" not in said and "too few" not in said
    assert f"{data} is up to date" in said and f"{data} is ready for fairseq-train" in said
    write_folder(folder, {name: text.replace(word, b"other") for name, text in packed.items()})
    with pytest.raises(Exception, match="from other content .--from"):
        run(folder, 2)
    assert contents(data) == before
    prepare(f"{corpus} {options}", folder, out=prepare.out / "other")
    found = contents(prepare.out / "other" / data.name)
    assert any(found[path] != before.get(path) for path in found if path.name != "recipe.json")
