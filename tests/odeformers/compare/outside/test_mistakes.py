"""Mistakes in a command line of ``odeformers compare`` end it in one line, before any training."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from script_helpers import ROOT, parallel_data

from odeformers.__main__ import main

SMALL = "--encoder-embed-dim 16 --encoder-ffn-embed-dim 32".split()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    parallel_data(folder, "de", "en", train=120, valid=8, test=11)
    return folder / "data-bin"


# The command line after DATA; {folder} is an empty folder, {root} the checkout.
MISTAKES = [
    ("", "--archs: name the architectures to train on .*, such as transformer_prenorm "),
    ("--archs transformer_prenorn", "--archs transformer_prenorn: .*did you mean"),
    ("--archs macaron", "--archs macaron: no .*; did you mean macaron_transformer or "),
    ("--archs transformer_prenorm transformer_prenorm", "--archs transformer_prenorm: list each"),
    ("--archs transject", "--archs transject: it is for class.* one such as trans"),
    ("--archs transformer,transject", "--archs transformer,transject: separate .* by spaces"),
    ("--archs transject --task translation", "translation: it does not train --arch transject"),
    ("--archs transformer[--dropout 0]", "transformer.--dropout: the bracket .*quote it: 'tra"),
    ("--archs transformer[dropout]", "dropout: give an option such as --dropout"),
    ("transformer --archs transformer", "transformer: give an option .* after --archs"),
    (
        "--archs transformer --encoder-depth 2",
        "--encoder-depth 2; .* belong to transevolve.* 'transevolve.--enc",
    ),
    ("--archs transformer --droput 0.1", "--droput 0.1; did you mean --dropout"),
    (
        "--archs transformer --metric accuracy",
        "(?<=error: )there .* --metric accuracy; .*-metric[?]",
    ),
    ("--archs transformer --frobnicate", "(?<=error: )there .* --frobnicate; fairseq-train --help"),
    ("--archs 'ode_transformer[--rk-ordr 2]'", "--rk-ordr 2; did you mean --rk-order[?]"),
    ("--archs 'ode_transformer[--rk-order x]'", "'ode_transformer.--rk-order x.' cannot be"),
    ("--arch transformer,transevolve", "--arch: .* did you mean --archs"),
    ("--archs transformer --budgett 1m", "--budgett: .* did you mean --budget"),
    ("--archs transformer --tune lr=fast,1", "--tune lr=fast .*--lr: give a number, not 'fast'"),
    ("--archs transformer --width 130 --heads 4", "--heads 4: give a divisor of --width 130"),
    ("--archs transformer --layers 0", "--layers: 0: give a whole number"),
    ("--archs transevolve_fullff_2 --layers 3", "--layers 3: the architecture has 2 blocks"),
    ("--archs transformer --criterion crossentropy", "--criterion: .*crossentropy"),
    ("--archs 'transevolve[--encoder-blocks 0]'", "--encoder-blocks 0: give at least 1"),
    ("--archs transformer --seed 3", "--seed: give --seeds; each run has its own"),
    ("--archs transformer --seed 1 2", "--seed: give --seeds"),
    ("--archs transformer --tune learning_rate=1,2", "--learning_rate.*; fairseq calls it --lr"),
    ("--archs 'transformer[--save-dir x]'", "--save-dir x: give --out"),
    ("--archs transformer --seeds 1 2,1", "--seeds 1 2 1: list each seed once"),
    ("--archs transformer --seeds 1;2", "--seeds: 1;2: give a whole number"),
    ("--archs transformer --tune lr=1,1", "--tune lr=1,1: give each value once"),
    ("--archs transformer --tune lr=1e-3,0.001", "--tune lr=1e-3,0.001: give each value once"),
    ("--archs transformer --tune lr=1", "--tune lr=1: give two or more values"),
    ("--archs transformer --lr -1", "--lr -1: give a rate above 0"),
    ("--archs transformer --lr 1 --tune lr=1,2", "--lr is tuned; leave it out"),
    ("--archs transformer --part one", "--part one: only for a RECIPE"),
    ("--archs transformer --budget soon", "--budget: soon"),
    ("--archs transformer --budget -1m", "--budget: -1m: give a time above 0"),
    ("--archs transformer --budget 30", "--budget: 30: give the unit as well, such as 30m"),
    ("--archs transformer --task parsing", "--task parsing: .* translation, "),
    ("--archs transformer --source-lang fr", "fr"),
    ("--archs transformer --user-dir {folder}/absent", "{folder}/absent"),
    (
        "--archs implicit_transformer_lm --user-dir {root}/examples/extending",
        "give one such as implicit_transformer ",
    ),
    (
        "--archs transformer_prenorm --best-checkpoint-metric bleu",
        "metric bleu: choose from loss, nll_loss, ppl ",
    ),
    (
        "--archs transformer_prenorm --best-checkpoint-metric frob",
        "metric frob: no known metric; correct the name, or give --maximize-best-checkpoint-metric "
        "if its highest value is the best, or ",
    ),
    (
        "--archs transformer_prenorm --best-checkpoint-metric frob "
        "--maximize-best-checkpoint-metric false",
        "metric frob: choose from loss,",
    ),
    (
        "--archs transformer_prenorm --best-checkpoint-metric bleu "
        "--maximize-best-checkpoint-metric=false",
        "--maximize-best-checkpoint-metric: the best bleu is the highest one; leave the option out",
    ),
    ("--archs transformer_prenorm --disable-validation", "--disable-validation True: "),
    ("--archs transformer_prenorm --cluster slurm", "--cluster slurm: .*srun"),
    ("--archs transformer_prenorm --cluster slurm --budget 1m", "--budget: .* give --epochs or"),
    (
        "--archs transformer_prenorm --epochs 3 --budget 30s",
        "--epochs 3: --budget sets the updates",
    ),
    (
        "--archs 'transformer[--max-epoch 2]' --budget 1m",
        "--max-epoch 2: --budget sets the updates",
    ),
    ("--archs transformer_prenorm --slurm-partition x", "--slurm-partition x: give --cluster"),
    ("--archs transformer_prenorm --dry-run --out {root}/Makefile/a", "Makefile is a file; give"),
    ("--archs transformer_prenorm --out {root}", "--out {root}: it has files, but no comp"),
    ("--archs transformer_prenorm --out {folder}/a:b", "{folder}/a:b.*':'"),
    (
        "--archs transformer_prenorm --max-tokens 2 --max-tokens-valid 100",
        "no training example fits; give a larger --max-tokens, or --max-source-positions and",
    ),
]


@pytest.mark.parametrize("options, message", MISTAKES, ids=lambda value: value)
def test_mistakes_are_refused_before_the_first_training(
    options, message, pairs, tmp_path, monkeypatch, capsys
):
    line = [pairs, *shlex.split(options.format(folder=tmp_path, root=ROOT))]
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # forks of this process need one thread
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))  # without Slurm
    out = tmp_path / "runs"
    with pytest.raises(SystemExit) as stopped:
        main(["compare", "--out", str(out), *map(str, line), *SMALL])
    assert stopped.value.code == 2
    output = capsys.readouterr().err.splitlines()[-1]
    message = message.replace("{folder}", str(tmp_path)).replace("{root}", str(ROOT))
    assert re.search(f"odeformers compare: error: .*{message}", output)
    assert not out.exists()


def test_misspelt_options_are_refused_before_data_are_prepared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    recipe = {
        "data": "new",
        "prepare": "mkdir new",
        "train": {"task": "translation", "source-lang": "de", "target-lang": "en"},
        "architectures": {"transformer_prenorm": {}},
    }
    Path("recipe.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.raises(SystemExit):
        main(["compare", "recipe.yaml", "--droput", "0.1"])
    assert "--droput 0.1; did you mean --dropout?" in capsys.readouterr().err
    assert not Path("new").exists()
