"""What goes wrong ends a preparing script with a message of one line."""

from concurrent.futures.process import BrokenProcessPool

import pytest

from fairseq_odeformers.corpora import cli


@pytest.mark.parametrize("error", [ValueError, OSError, BrokenProcessPool])
def test_an_error_ends_the_program_with_one_line(error, monkeypatch):
    monkeypatch.setattr("logging.basicConfig", lambda **options: None)
    with pytest.raises(SystemExit, match="^prepare-corpus.sh: error: reason$"):
        with cli.reporting("prepare-corpus.sh"):
            raise error("reason")
