"""Bad options end the preparation of a corpus before it starts."""

import pytest

from fairseq_odeformers.data import cli


@pytest.mark.parametrize(
    "options, message",
    [
        (["--workers", "0"], "argument --workers: invalid positive_int value: '0'"),
        (["--bpe-operations", "x"], "argument --bpe-operations: invalid positive_int value: 'x'"),
        (["--from", "absent.tgz"], "--from absent.tgz: no such file or folder"),
        *(
            (
                ["--from", source, "--out", "."],
                f"--from {source} overlaps raw, made by this script; choose another --out",
            )
            for source in (".", "raw", "raw/corpus")
        ),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch, capsys):
    def never(*args):
        raise AssertionError("work has started")

    (tmp_path / "raw" / "corpus").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["prepare", *options])
    with pytest.raises(SystemExit) as stopped:
        cli.main("corpus", ("de", "en"), ["train.de"], never, never, bpe_operations=10)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"prepare-corpus.sh: error: {message}"
    assert [path.name for path in tmp_path.rglob("*")] == ["raw", "corpus"]
