"""Runs side by side and on a cluster."""

import signal

import pytest

from tests.odeformers.compare.outside.commands import (
    BOTH,
    Command,
    alive,
    compare,
    held,
    line,
    refuse,
    scores,
    wait_for,
)

QUICK = ["--epochs", 2, "--average", 0]


def test_runs_end_with_their_command(data, controls, tmp_path):
    """Two of three runs train at once, as --jobs says, and end when the command is terminated."""
    (controls / "hold-training").touch()
    words = ["--archs", "scripted_base", "scripted_poor", "scripted_good", *QUICK, "--jobs", 2]
    command = Command(*line(data, tmp_path / "runs", *words), SCRIPTED=str(controls))
    wait_for(lambda: len(held(controls)) == 2)
    marks = held(controls)
    assert len([*tmp_path.glob("runs/*/train.log")]) == 2
    command.kill(signal.SIGTERM)
    assert command.end().status == 128 + signal.SIGTERM
    wait_for(lambda: not any(map(alive, marks)))


# Starts the jobs of an array one after the other, in the background.
SBATCH = """\
#!/bin/sh
cp "$1" "{folder}"
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$1")
export SLURM_ARRAY_JOB_ID=7 SLURM_NTASKS=1 SLURM_NNODES=1 SLURM_PROCID=0
export SLURM_NODEID=0 SLURM_LOCALID=0
(for task in $(seq 0 $last); do
  export SLURM_ARRAY_TASK_ID=$task SLURM_JOB_ID=$((7 + task))
  sh "$1"
done) > /dev/null 2>&1 &
echo Submitted batch job 7
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Stubs of Slurm's commands; returns the folder of their arguments."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    scripts = {"sbatch": SBATCH.format(folder=folder), **dict.fromkeys(("srun", "scancel"), "")}
    for name, text in scripts.items():
        (folder / name).write_text(text or "#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_runs_are_submitted_as_one_array(slurm, data, tmp_path, monkeypatch):
    """The array has the command's options, and a limit of 90 seconds becomes two minutes.

    The cluster, not this machine, determines the cores of a job.
    """
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    out = tmp_path / "runs"
    options = ["--slurm-partition", "main", "--gpus-per-run", 3, "--time", "90s", "--jobs", 2]
    compare(data, out, *BOTH, *QUICK, "--cluster", "slurm", *options)
    (script,) = slurm.glob("*.sh")
    asked = script.read_text()
    for option in ("--partition=main", "--gpus-per-node=3", "--time=2", "--array=0-1%2"):
        assert f"#SBATCH {option}\n" in asked
    assert "--cpus-per-task" not in asked
    assert "export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_ON_NODE:-1}}\n" in asked
    assert {"scripted_base", "scripted_poor"} < scores(out).keys()


def test_an_error_of_sbatch_is_one_line(slurm, data, tmp_path):
    (slurm / "sbatch").write_text("#!/bin/sh\necho 'error: no partition x' >&2\nexit 1\n")
    words = ["--archs", "scripted_base", *QUICK, "--cluster", "slurm", "--slurm-partition", "x"]
    message = refuse(*line(data, tmp_path / "runs", *words))
    assert "--cluster slurm" in message and "no partition x" in message
