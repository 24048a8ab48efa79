"""fairseq writes complete checkpoints, runs no code of one, and explains one that does not fit."""

import gzip
import os
import subprocess
import sys
from fractions import Fraction

import pytest
import torch
from fairseq import checkpoint_utils, utils
from fairseq.file_io import PathManager
from fairseq.models import fconv
from helpers import checkpoint_of
from make_checkpoints import PATHS, write_data
from script_helpers import USER_DIR, command, contents, execute, failing_command, full_disk, module

from fairseq_odeformers.checkpoints.origin import HARDENED, TRUST
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.patches import checkpoints
from fairseq_odeformers.patches.versions import SAFE_LOADER
from odeformers.__main__ import main

STATE = checkpoint_of({"weight": torch.rand(2000)})


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(checkpoints, "PAUSE", 0)


@pytest.fixture
def path(tmp_path):
    torch.save(STATE, tmp_path / "checkpoint_last.pt")
    return tmp_path / "checkpoint_last.pt"


def test_a_full_disk_leaves_only_complete_checkpoints(path):
    before = contents(path.parent)
    other = path.with_name("checkpoint_1_20.pt")
    message = f"^{other} cannot be saved; earlier checkpoints are intact.*File too large"
    with full_disk(1000):
        with pytest.raises(InputError, match=message):
            checkpoint_utils.torch_persistent_save(STATE, str(other))
        with pytest.raises(OSError, match="File too large"):
            PathManager.copy(str(path), str(other), overwrite=True)
    assert contents(path.parent) == before


def test_a_checkpoint_is_saved_after_a_failure(path, monkeypatch, caplog):
    """Two attempts write half of it; the third file contains nothing of these."""
    save, failures = torch.save, [OSError(5, "Input/output error") for _ in range(2)]

    def fail_at_first(state, file):
        if failures:
            file.write(b"half")
            raise failures.pop()
        save(state, file)

    monkeypatch.setattr(torch, "save", fail_at_first)
    checkpoint_utils.torch_persistent_save({**STATE, "newer": 1}, str(path))
    assert torch.load(path)["newer"] == 1 and len([*path.parent.iterdir()]) == 1
    assert caplog.text.count("trying again (") == caplog.text.count("Input/output error)") == 2


def test_resuming_with_another_model_names_the_differences(tmp_path):
    """The error names the options that differ, or torch's last line, and changes no file.

    A missing --restore-file beside a checkpoint is an error, too, where fairseq would start anew.
    """
    folder = tmp_path / "run"
    training = [
        *"train --task parity --arch vanilla_transformer --parity-max-length 2 --cpu".split(),
        *"--criterion sequence_classification --optimizer adam --batch-size 8".split(),
        *["--user-dir", USER_DIR, "--save-dir", folder, "--max-epoch", 1, "--no-progress-bar"],
    ]
    command(*training)
    path, before = folder / "checkpoint_last.pt", contents(folder)
    state = torch.load(path)
    name = "encoder.layers.0.fc1.weight"
    del state["model"][name]
    for more, reason in [
        (["--encoder-layers", 3], "--encoder-layers 2"),
        (["--arch", "node_transformer"], "--arch vanilla_transformer"),
        (["--restore-file", "absent/checkpoint_best.pt"], ""),
        ([], name),
    ]:
        if not more:
            torch.save(state, path)
            before = contents(folder)
        refused = failing_command(*training, *more)
        assert "Traceback" not in refused
        *_, last = refused.splitlines()
        if reason:
            assert last.startswith(f"error: {path} does not fit the model: ") and reason in last
        else:
            assert f"{' '.join(more)}: no such file" in last
        assert contents(folder) == before


LAUNCHER = """
import sys
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli.train import main

args = options.parse_args_and_arch(options.get_training_parser(), sys.argv[1:])
try:
    main(convert_namespace_to_omegaconf(args))
except Exception as error:
    print(f"caught: {error}")
"""


def test_a_launcher_catches_what_ends_a_training(tmp_path):
    line = f"{TRAIN} --restore-file absent.pt --save-dir {tmp_path}"
    *_, last = execute(sys.executable, "-c", LAUNCHER, *line.split()).splitlines()
    assert last.startswith("caught: --restore-file absent.pt: no such file")


def test_a_requeued_script_may_name_the_last_checkpoint_from_the_start(tmp_path):
    """The first job starts from scratch, as in fairseq, and the second one resumes."""
    path = tmp_path / "checkpoint_last.pt"
    for epochs, log in (
        (1, f"No existing checkpoint found {path}"),
        (2, f"Loaded checkpoint {path}"),
    ):
        line = f"{TRAIN} --restore-file {path} --save-dir {tmp_path} --max-epoch {epochs}"
        assert log in command("train", *line.split())
    assert torch.load(path)["extra_state"]["train_iterator"]["epoch"] == 3


@pytest.mark.parametrize(
    "text, value",
    [
        ("[(512, 3)] * 2 + [(1, 2)]", [(512, 3), (512, 3), (1, 2)]),
        (" (0.9, 0.98)", (0.9, 0.98)),
        ("False", False),
        ("5e-4/2, -(1 - 2)", (2.5e-4, 1)),
        ("[(2**9, 3)] * 2", [(512, 3), (512, 3)]),
        ("{'a': 2 * 3, 1 + 1: {'b': [1] * 2}}", {"a": 6, 2: {"b": [1, 1]}}),
    ],
)
def test_options_that_fairseq_evaluates_are_literals_and_arithmetic(text, value):
    """Expressions as users of fairseq write are evaluated, and all others are refused."""
    assert fconv.eval(text) == utils.eval(text) == value
    for other in (f"print({text})", "[].append", "(1).real", "x", "[x]", "{**{}}", "{'a': x}"):
        with pytest.raises(ValueError, match="malformed node"):
            fconv.eval(other)
    faults = {"(0.9": "never closed", "1/0": "zero", "1+'a'": "operand", "{[]: 1}": "unhashable"}
    large = ["2**65", "9**9**9", "((2**60)**60)**60", "2.0**-65", "1e300**2"]
    for other, fault in {**faults, **dict.fromkeys(large, "too large")}.items():
        with pytest.raises(ValueError, match=fault) as refused:
            fconv.eval(other)
        assert repr(other) in str(refused.value) and "\n" not in str(refused.value)
    assert utils.eval_bool(True) is False  # what is not text


class CreatesFolder:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("trace",)


COMMON = f"--user-dir {USER_DIR} --cpu"
MODEL = f"words {COMMON} --path foreign.pt"
TRAIN = (
    f"{COMMON} --task parity --arch vanilla_transformer --criterion sequence_classification "
    "--optimizer adam --batch-size 8"
)
REFUSED = "foreign.pt is not loaded: it contains posix.mkdir, which could run code"
CODE = "__import__('os').mkdir('trace')"


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A folder with dictionaries and two checkpoints that would make another folder, ``trace``."""
    folder = tmp_path_factory.mktemp("foreign")
    write_data(folder)
    torch.save({**STATE, "foreign": CreatesFolder()}, folder / "foreign.pt")
    with gzip.open(PATHS["macaron_transformer"]) as file:
        state = torch.load(file, weights_only=True)
    state["cfg"]["criterion"] = {"_name": "ctc", "wer_args": CODE}
    torch.save(state, folder / "criterion.pt")
    return folder


@pytest.mark.skipif(not HARDENED, reason="before torch 2.10, the tests trust every file")
@pytest.mark.parametrize(
    "line",
    [
        f"fairseq_cli.train {TRAIN} --restore-file foreign.pt",
        f"fairseq_cli.train {TRAIN} --finetune-from-model foreign.pt",
        f"fairseq_cli.generate {MODEL} -s de -t en",
        f"fairseq_cli.interactive {MODEL} -s de -t en",
        f"fairseq_cli.validate {MODEL} --task translation --batch-size 1",
    ],
)
def test_fairseqs_commands_run_no_code_of_a_checkpoint(line, foreign):
    with pytest.raises(subprocess.CalledProcessError) as error:
        module(*line.split(), cwd=foreign)
    last = error.value.stdout.splitlines()[-1]
    if "generate" in line:  # fairseq calls its main function without call_main
        assert REFUSED in last
    else:
        assert last.startswith(f"error: {REFUSED}") and "Traceback" not in error.value.stdout
    assert "weights_only" not in error.value.stdout  # no advice to load it anyway
    assert not {"trace", "out"}.intersection(path.name for path in foreign.iterdir())


@pytest.mark.skipif(not HARDENED, reason="before torch 2.10, the tests trust every file")
def test_the_environment_does_not_disable_the_safe_loader(foreign, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.chdir(foreign)
    with pytest.raises(InputError, match=REFUSED):
        checkpoint_utils.load_checkpoint_to_cpu("foreign.pt")
    with pytest.raises(SystemExit):
        main("average --inputs foreign.pt --output averaged.pt".split())
    assert REFUSED in capsys.readouterr().err
    assert not (foreign / "trace").exists()


def test_a_checkpoint_that_the_user_trusts_is_read(path, monkeypatch):
    """By the environment, or by the class in it."""
    path, half = str(path), Fraction(1, 2)
    torch.save({**STATE, "half": half}, path)
    with monkeypatch.context() as patch:
        patch.setenv(TRUST, "1")
        assert checkpoint_utils.load_checkpoint_to_cpu(path)["half"] == half
    if SAFE_LOADER:
        with torch.serialization.safe_globals([Fraction]):
            assert checkpoint_utils.load_checkpoint_to_cpu(path)["half"] == half


@pytest.mark.parametrize(
    "name, option, line",
    [
        ("interactive", "--replace-unk @@", "words --path plain.pt -s de -t en"),
        ("train", "--encoder-attention-heads 7", TRAIN),
    ],
)
def test_commands_end_in_one_line_because_of_an_option(name, option, line, foreign):
    """The message of a model suffices, so no traceback follows."""
    (foreign / "plain.pt").write_bytes(
        gzip.decompress(PATHS["transevolve_fullff_2_prenorm"].read_bytes())
    )
    with pytest.raises(subprocess.CalledProcessError) as error:
        module(f"fairseq_cli.{name}", *line.split(), *COMMON.split(), *option.split(), cwd=foreign)
    assert error.value.stdout.splitlines()[-1].startswith(f"error: {option}")
    assert "Traceback" not in error.value.stdout


def test_commands_run_no_code_of_a_criterion(foreign):
    line = f"{MODEL.replace('foreign.pt', 'criterion.pt')} --task translation --batch-size 1"
    with pytest.raises(subprocess.CalledProcessError) as error:
        module("fairseq_cli.validate", *line.split(), cwd=foreign)
    last = error.value.stdout.splitlines()[-1]
    assert repr(CODE)[1:-1] in last and "malformed node" in last
    assert not (foreign / "trace").exists()
