"""Runs on a Slurm cluster of one node, for which Debian's slurm-wlm and munge suffice."""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from script_helpers import USER_DIR, parallel_data

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("slurmctld") and shutil.which("munged") and os.getuid() == 0),
        reason="it takes root, and Debian's slurm-wlm and munge",
    ),
]

CONFIG = """\
ClusterName=one
SlurmctldHost={host}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=2
NodeName={host} CPUs={cores}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(number):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Slurm's two daemons and munge, while the test runs; its commands find them."""
    folder = tmp_path / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o700)
    host = socket.gethostname().partition(".")[0]
    config = folder / "slurm.conf"
    ports = free_ports(2)
    config.write_text(CONFIG.format(host=host, folder=folder, ports=ports, cores=os.cpu_count()))
    monkeypatch.setenv("SLURM_CONF", str(config))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    munge = {"socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munged.seed"}
    options = [f"--{name}={folder / path}" for name, path in munge.items()]
    options += [f"--key-file={key}", f"--log-file={folder / 'munged.log'}"]
    commands = [["munged", "--force", "--foreground", *options], ["slurmctld", "-D"]]
    commands.append(["slurmd", "-D"])
    with ExitStack() as stack:
        for command in commands:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            daemon = stack.enter_context(subprocess.Popen(command, cwd=folder, **quiet))
            stack.callback(daemon.terminate)
            time.sleep(2)
        stack.callback(output, "scancel", "--user", "root")
        wait(lambda: "idle" in output("sinfo", "--noheader"), 60)
        yield


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def wait(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(1)


def jobs():
    """Id and state of each job in the queue."""
    return dict(line.split() for line in output("squeue", "-rho", "%i %T").splitlines())


def test_a_preempted_run_continues(slurm, tmp_path):
    """Two architectures have two values of an option; the first job is requeued after an epoch."""
    (tmp_path / "pairs").mkdir()
    parallel_data(tmp_path / "pairs", "de", "en", train=500, valid=8, test=8)
    out = tmp_path / "runs"
    sizes = "--encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-layers 1".split()
    compare = subprocess.Popen(
        [
            *(sys.executable, "-m", "odeformers", "compare", tmp_path / "pairs/data-bin"),
            *("--archs", "transformer_prenorm", "macaron_transformer", "--epochs", "10"),
            *("--tune", "lr=1e-3,2e-3"),
            *("--out", out, "--cluster", "slurm", "--jobs", "1", *sizes),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.path.dirname(USER_DIR)},
    )
    log = out / "transformer_prenorm-lr-1e-3-seed1/train.log"
    wait((log.parent / "checkpoint_last.pt").exists, 600)
    (running,) = (job for job, state in jobs().items() if state == "RUNNING")
    subprocess.run(["scontrol", "requeue", running], check=True)
    assert compare.wait(1800) == 0
    assert log.read_text().count("Loaded checkpoint") == 1
    report = (out / "report.md").read_text()
    assert "| transformer_prenorm | 1 |" in report and "| macaron_transformer | 1 |" in report
    assert len([*out.glob("*-lr-*-seed1/train.log")]) == 4
