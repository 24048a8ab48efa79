"""``make setup`` finds a Python that fairseq supports, or says in a line what to install."""

import shutil
import subprocess

import pytest
from script_helpers import SCRIPTS


@pytest.fixture
def setup(tmp_path):
    """Runs the script where PATH has only the programs of a test, and no other Python."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPTS / "setup.sh", tmp_path / "scripts")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname", "rm"):
        (folder / name).symlink_to(shutil.which(name))

    def run(**commands):
        for name, lines in commands.items():
            path = folder / name.replace("_", ".")
            path.write_text(f"#!{folder / 'bash'}\n{lines}\n")
            path.chmod(0o755)
        return subprocess.run(
            [folder / "bash", tmp_path / "scripts" / "setup.sh"],
            env={"PATH": str(folder)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    return run


TOO_NEW = 'case "$*" in *version_info*) exit 1 ;; *) echo "Python 3.99" ;; esac'
FITS = 'case "$*" in *ensurepip*) exit 1 ;; *version*) echo "Python 3.11" ;; esac'


def test_without_a_python_setup_says_what_to_install(setup):
    result = setup(python3=TOO_NEW)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("make setup: no Python 3.10-3.13 on PATH; install one")
    assert "uv" in line


def test_uv_provides_a_missing_python(setup, tmp_path):
    result = setup(python3=TOO_NEW, uv=f'echo "$@" > {tmp_path}/asked; exit 1')
    assert (tmp_path / "asked").read_text() == "venv --quiet --python 3.12 --seed .venv\n"
    assert result.stderr == "make setup: uv has no Python 3.12\n"


def test_a_supported_python_is_preferred_to_a_newer_one(setup):
    """The supported Python is used, here one that turns out to lack modules."""
    result = setup(python3=TOO_NEW, python3_11=FITS, uv="exit 1")
    assert result.stderr.startswith("make setup: python3.11 lacks the modules venv and ensurepip")
