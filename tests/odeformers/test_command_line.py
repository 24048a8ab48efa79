"""The command ``odeformers``: its listings, and errors in one line."""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from importlib.metadata import version

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from helpers import OLD, resolved
from omegaconf import OmegaConf
from script_helpers import ROOT, USER_DIR, module, write_to

from fairseq_odeformers.registry import declared_family, model_parser
from odeformers.__main__ import COMMANDS, main
from odeformers.options import architectures, option_rows, page_of
from odeformers.options import main as list_options
from odeformers.prepare import CORPORA
from odeformers.processes import FORK

ARCHITECTURES = architectures()


def test_the_module_prints_its_folder(capsys, monkeypatch):
    """The command without arguments prints its help."""
    monkeypatch.setattr("sys.argv", ["fairseq_odeformers"])
    runpy.run_module("fairseq_odeformers")
    assert capsys.readouterr().out == USER_DIR + "\n"
    with pytest.raises(SystemExit, match="^0$"):
        main([])
    assert set(COMMANDS) <= set(capsys.readouterr().out.split())


def test_version(capsys):
    with pytest.raises(SystemExit, match="^0$"):
        main(["--version"])
    assert capsys.readouterr().out == version("fairseq-odeformers") + "\n"


def test_a_clone_without_its_dependencies_says_so(tmp_path):
    """In a Python without packages the command says in one line how to install them."""
    for package in ("odeformers", "fairseq_odeformers"):
        (tmp_path / package).symlink_to(ROOT / package)
    ended = subprocess.run(
        [sys.executable, "-S", "-m", "odeformers", "list"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert re.match("odeformers: error: fairseq-odeformers is not installed; .*make setup", line)


def test_ctrl_c_during_the_imports_prints_one_line(tmp_path):
    """An imported module interrupts its process here."""
    handled = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    # SIGINT is ignored if a shell starts the tests in the background.
    (tmp_path / "fairseq.py").write_text(f"{handled}signal.raise_signal(signal.SIGINT)")
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ended = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m odeformers list; exit $?"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 130
    assert ended.stderr.strip() == "odeformers: interrupted"


def test_an_error_has_a_traceback_only_on_request(capsys, monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match="^2$"):
        main(["report", str(tmp_path)])
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("ODEFORMERS_DEBUG", "1")
    with pytest.raises(ValueError, match=str(tmp_path)):
        main(["report", str(tmp_path)])


@pytest.mark.parametrize("encoding", ["ascii", "latin1", "utf-8"])
def test_streams_escape_characters_that_they_cannot_print(encoding, monkeypatch, tmp_path):
    """Both results and errors are escaped.

    Programs that a command starts print in UTF-8, as it is read.
    """
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "stderr", errors)
    (tmp_path / "d\xe9j\xe0 \u4e2d").mkdir()
    with pytest.raises(SystemExit, match="^2$"):
        main(["report", str(tmp_path / "d\xe9j\xe0 \u4e2d")])
    print(tmp_path / "\u4e2d")
    for stream, expected in ((errors, "d\xe9j\xe0 \u4e2d"), (output, "\u4e2d")):
        stream.flush()
        printed = stream.buffer.getvalue()
        assert expected.encode(encoding, "backslashreplace") in printed
    code = "import sys; print(sys.stdout.encoding)"
    child = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout.strip() == b"utf-8"


@pytest.mark.parametrize(
    "given, spins",
    [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "PASSIVE"}, None)],
)
def test_waiting_threads_do_not_spin_unless_the_user_sets_it(given, spins, monkeypatch):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # restored after the test
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match="^0$"):
        main(["--version"])
    assert os.environ.get("GOMP_SPINCOUNT") == spins


def test_list_has_a_line_for_each_name(capsys):
    """Names are grouped by task and paper, without those of fairseq."""
    main(["list"])
    groups = dict(group.split("\n", 1) for group in capsys.readouterr().out.strip().split("\n\n"))
    names = [line.split()[0] for lines in groups.values() for line in lines.splitlines()]
    assert sorted(names) == sorted(
        [*ARCHITECTURES, "parity", "long_range_arena", "sequence_classification"]
        + ["bert_pretraining", "bert_pretraining"]  # a task and a criterion
        + ["label_smoothed_cross_entropy_with_regularizers"]
    )
    found = groups["--arch, TransEvolve (Dutta et al. 2021), for --task translation"]
    assert re.search(
        r"^  transevolve_randomff_1 .*--ffn-type random .*--encoder-depth 6",
        found,
        re.M,
    )


def list_names(*words):
    """The names that the command prints, and its headings."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main(["list", *words])
    lines = output.getvalue().splitlines()
    return (
        {line.split()[0] for line in lines if line.startswith("  ")},
        [line for line in lines if line.startswith("--")],
    )


@pytest.mark.parametrize(
    "words, names",
    [
        ("transject", {"transject", "transject_lra", "transject_lm", "transject_lm_random"}),
        ("TransJect classifier", {"transject", "transject_lra"}),
        ("ot_transformer_l", {"ot_transformer_lm", "ot_transformer_lm_shakespeare"}),
        ("ode language_modeling", {"node_transformer_lm", "ode_transformer_lm"}),
        ("masked", {"macaron_bert", "macaron_bert_base"}),
        ("parity", {"parity", "transject", "node_transformer"}),
        ("criterion", {"sequence_classification"}),
    ],
)
def test_list_shows_the_architectures_that_words_match(words, names):
    """Each word begins a word of the family, the kind, the task or the name, in any case."""
    listed, groups = list_names(*words.split())
    everything, _ = list_names()
    assert names <= listed < everything
    assert not listed & {"diffeq_transformer_lm", "tmmformer"}  # "model" contains "ode"
    if words.startswith("TransJect"):
        assert all("TransJect" in group and "long_range_arena" in group for group in groups)


def test_the_page_of_an_architecture_exists():
    """The page names the architecture or its family."""
    for arch in ARCHITECTURES:
        text = (ROOT / page_of(arch)).read_text(encoding="utf-8").lower()
        family = declared_family(ARCH_MODEL_REGISTRY[arch])
        assert f"`{arch}`" in text or family.name.lower() in text, arch


def test_options_show_the_presets_defaults(capsys):
    """If another option is the default, its name is shown."""
    main(["options", "transevolve_randomff_1"])
    out = capsys.readouterr().out
    head, *_ = out.split("\n\n")
    assert [line.split()[0] for line in head.splitlines()] == [
        *("description", "preset", "paper", "page")
    ]
    assert re.search(r"^preset +transevolve --ffn-type random ", head, re.M)
    assert re.search(r"^page +docs/papers/transevolve.md$", head, re.M)
    assert re.search(r"^--encoder-depth +6 +depth L of an encoder block.*; at least 1 ", out, re.M)
    assert re.search(r"^--decoder-depth +--encoder-depth +depth", out, re.M)


def test_options_show_their_values_and_bounds(capsys):
    """Options that fairseq's Transformer lacks come first; bounds name only the model's options."""
    main(["options", "ot_transformer_lm"])
    _, added, shared = capsys.readouterr().out.split("\n\n")
    assert re.search("^--ode-method +euler .*; one of euler, midpoint, rk4$", added, re.M)
    assert re.search(
        "^--final-norm .*; none, no final LayerNorm$", added, re.M
    )  # the help names all values
    assert re.search("^--ode-steps .*; at least 1$", added, re.M)
    assert re.search("^--activation-fn .*; one of relu, gelu", shared, re.M)  # fairseq's type
    assert re.search("^--dropout .*; at least 0 and below 1$", shared, re.M)
    main(["options", "transevolve_lm"])
    bounds = "; at least 2, a multiple of 2 and --decoder-attention-heads$"
    assert re.search(f"^--time-dim .*{bounds}", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("arch", [arch for arch in ARCHITECTURES if arch in MODEL_REGISTRY])
def test_options_name_each_choice_once(arch):
    """An option's row contains all its values; a list follows only if the help lacks one."""
    actions = model_parser(arch)._option_string_actions
    for (name, *_), _, text in option_rows(arch):
        values = {*(actions[name].choices or ())}
        before, _, after = text.partition("; one of ")
        words = {*re.findall(r"[\w-]+", before)}
        assert values <= {*words, *after.split(", ")}, text
        assert not after or not values <= words, text


def test_listings_show_how_to_turn_an_option_off(capsys):
    main(["options", "ot_transformer"])
    out = capsys.readouterr().out
    assert re.search("^--layer-norm, --no-layer-norm +True ", out, re.M)
    main(["list"])
    assert re.search(
        "^  ot_transformer_lm_shakespeare .* --no-layer-norm$", capsys.readouterr().out, re.M
    )


@pytest.mark.parametrize(
    "arch, remedy",
    [("macaron", "mean macaron_transformer"), ("roberta", "are in fairseq")],
)
def test_options_of_an_unknown_architecture_are_refused(arch, remedy):
    """The suggested names are ones that ``list`` shows."""
    with pytest.raises(ValueError, match=f"{arch}: .*{remedy}"):
        list_options([arch])


PRESET = """\
from fairseq.models import register_model_architecture


@register_model_architecture("transformer", "own_preset")
def preset(args):
    args.encoder_embed_dim = 64
"""


def test_a_plugin_is_listed(tmp_path):
    """The plugin's preset has its own defaults. The commands run in processes, since names stay."""
    (tmp_path / "extending").symlink_to(ROOT / "examples" / "extending")
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "__init__.py").write_text(PRESET)
    plugin = ["--user-dir", tmp_path / "extending", "--user-dir", tmp_path / "preset"]
    listed = module("odeformers", "list", *plugin)
    names = {
        "sentence_prediction.*": "implicit_transformer_classifier",
        "language_modeling": "implicit_transformer_lm",
        "translation": "own_preset",
    }
    for task, name in names.items():
        group = rf"your own, for --task {task}\n(  .*\n)*  {name} "
        assert re.search(group, listed)
    plugin = ["--user-dir", ROOT / "examples" / "extending"]  # may be imported already
    shown = module("odeformers", "options", "implicit_transformer_classifier_4", *plugin)
    assert re.search("--implicit-iterations  +4  ", shown)
    assert shown.startswith("description  The classifier;") and "\npage" not in shown


@pytest.mark.parametrize("line", [[], ["--help"], ["prepare", "--help"]])
def test_help_needs_no_fairseq(line):
    """Help imports neither fairseq nor torch, which takes seconds."""
    show = [sys.executable, "-X", "importtime", "-m", "odeformers", *line]
    imported = subprocess.run(show, capture_output=True, text=True).stderr
    assert "argparse" in imported
    assert not re.search(r"\|\s+(torch|fairseq(_odeformers)?|numpy)$", imported, re.M)


def test_help_describes_each_corpus(capsys):
    with pytest.raises(SystemExit):
        main(["prepare", "--help"])
    shown = capsys.readouterr().out
    for name in CORPORA:
        assert re.search(rf"^    {name}\s+[A-Z]\w+", shown, re.M), name


@pytest.mark.skipif(OLD, reason="fairseq has fewer options of its own")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_listed_options_exist_on_the_command_line(arch):
    """Each option has a help, and an option that is named as a default is listed, too."""
    rows = list(option_rows(arch))
    names = {names[0] for names, _, _ in rows}
    config = OmegaConf.to_container(resolved(arch), enum_to_str=True)
    assert {name[2:].replace("-", "_") for name in names} <= set(config)
    assert len(names) == len(rows) >= 4
    for typed, default, _ in rows:
        assert not default.startswith("--") or default in names, typed


class Output:
    """A standard output to which writing fails."""

    def __init__(self, error):
        self.error = error

    def write(self, text):
        raise self.error


@pytest.mark.parametrize(
    "error, message",
    [
        (ValueError("bad"), "bad$"),
        (FileNotFoundError(2, "No such file", "a"), ".*No such file.*'a'$"),
        (MemoryError(), ".*memory; use smaller sizes or batches$"),
        (ModuleNotFoundError(name="PIL.Image"), r"pillow .* \[corpora\]$"),
    ],
)
def test_errors_are_one_line(error, message, monkeypatch, capsys):
    """The status is 2, as argparse's for a wrong option."""
    monkeypatch.setattr(sys, "stdout", Output(error))
    with pytest.raises(SystemExit, match="^2$"):
        main(["list"])
    assert re.match(f"odeformers list: error: {message}", capsys.readouterr().err)


@pytest.mark.parametrize("error", [TypeError("a fault"), ModuleNotFoundError(name="unheard_of")])
def test_bugs_of_the_program_are_raised(error, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Output(error))
    with pytest.raises(type(error)):
        main(["list"])


def list_to(writer, errors):
    write_to(errors)
    os.dup2(writer, 1)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    main(["list"])


def test_a_closed_pipe_is_no_error(tmp_path):
    """The reader may be gone, as with ``odeformers list | head``."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(tmp_path / "errors", "w") as errors:
        child = FORK.Process(target=list_to, args=(writer, errors))
        child.start()
        child.join()
    os.close(writer)
    assert child.exitcode == 0 and not (tmp_path / "errors").read_text()
