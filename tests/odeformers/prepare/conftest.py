import re

import pytest

from odeformers.__main__ import main


class Refused(Exception):
    """The last line of a preparation that refuses its input."""


class Preparing:
    """``odeformers prepare`` in this process with one worker, into ``out`` of the test's folder."""

    def __init__(self, out, capsys):
        self.out, self.capsys = out, capsys

    def __call__(self, line, source=None, *options, out=None, workers=1):
        """The log.

        Raises:
            Refused: the command ends with status 2.
        """
        out = out or self.out
        words = [*line.split(), *options, "--out", out, "--workers", workers]
        words += ["--from", source] if source else []
        self.capsys.readouterr()
        try:
            main(["prepare", *map(str, words)])
        except SystemExit as stopped:
            said = self.capsys.readouterr()
            assert stopped.code == 2 and "Traceback" not in said.err
            self.said = said.out
            raise Refused(said.err.splitlines()[-1]) from stopped
        return self.capsys.readouterr().out

    def refuses(self, named, line, source=None, *options, **settings):
        """Check that the last line names what is wrong, and that nothing half-written stays."""
        with pytest.raises(Refused) as refused:
            self(line, source, *options, **settings)
        pattern = f"odeformers prepare {line.split()[0]}: error: .*{named}"
        assert re.match(pattern, str(refused.value)), refused.value
        assert not list(self.out.rglob("*-bin"))
        return self.said


@pytest.fixture
def prepare(tmp_path, capsys):
    return Preparing(tmp_path / "out", capsys)


def warnings(log):
    return [line.split(" | WARNING | ")[1] for line in log.splitlines() if " | WARNING | " in line]


@pytest.fixture(name="warnings")
def warnings_of():
    return warnings
