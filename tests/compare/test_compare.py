"""``odeformers compare`` from data to a report, and what it refuses before it trains."""

import re

import pytest
from script_helpers import module, parallel_data

from fairseq_odeformers import cli
from fairseq_odeformers.compare.plan import TOLERANCE, make_plan
from fairseq_odeformers.compare.recipe import default_recipe
from fairseq_odeformers.compare.report import over_seeds

SMALL = "--encoder-embed-dim 16 --encoder-ffn-embed-dim 32".split()
ARCHS = ["transformer_prenorm", "macaron_transformer", "transevolve_fullff_2_prenorm"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    parallel_data(folder, "de", "en", train=120, valid=8, test=8)
    return folder / "data-bin"


def test_models_have_the_parameters_of_the_first(data):
    recipe = default_recipe(data, {arch: {} for arch in ARCHS}, epochs=1)
    recipe.sizes = {"embed-dim": 32, "ffn-embed-dim": 128, "attention-heads": 2, "layers": 2}
    first, *others = make_plan(recipe, "fairseq_odeformers").entries
    assert first.options["encoder-ffn-embed-dim"] == 128
    for entry in others:
        assert abs(entry.parameters - first.parameters) <= TOLERANCE * first.parameters
    assert first.options["total-num-update"] == first.updates > 0


def test_a_comparison_from_data_to_report(data, tmp_path):
    """It is not repeated, and a report can be had at any time."""
    out = tmp_path / "runs"
    archs = ["--archs", "transformer_prenorm", "transevolve_fullff_2_prenorm"]
    line = ["compare", data, *archs, "--epochs", 3, "--out", out, *SMALL]
    first = module("fairseq_odeformers", *line)
    assert "| transevolve_fullff_2_prenorm |" in first and "report.html" in first
    report = (out / "report.md").read_text()
    assert re.search(r"\| transevolve_fullff_2_prenorm \| 1 \| [\d.]+ \| [\d.]+ \|", report)
    assert "![Learning curves](curves.png)" in report and (out / "curves.png").exists()
    page = (out / "report.html").read_text()
    assert page.count("data:image/png") == report.count(".png)")
    for name in ("averaged.pt", "checkpoint_best.pt", "averaged.test.out", "train.log"):
        assert (out / "transformer_prenorm-seed1" / name).exists(), name
    logs = {path: path.read_bytes() for path in out.glob("*/train.log")}
    module("fairseq_odeformers", *line)
    assert {path: path.read_bytes() for path in logs} == logs
    tables = module("fairseq_odeformers", "report", out, "--latex", tmp_path / "tex")
    assert tables.strip().endswith(report.strip()[-200:])
    assert r"\toprule" in (tmp_path / "tex" / "test-best-checkpoint.tex").read_text()


@pytest.mark.parametrize(
    "options, message",
    [
        (["--archs", "transformer_prenorn"], "--arch transformer_prenorn: .*did you mean"),
        (["--archs", "transformer", "--encoder-depth", "2"], "transformer: unrecognized .*depth"),
        (["--archs", "transevolve[--encoder-blocks 0]"], "--encoder-blocks 0: give at least 1"),
        (["--archs", "transformer", "--lr", "x"], "transformer: argument --lr: invalid"),
        (["--archs", "transformer", "--seeds", "1", "1"], "--seeds 1 1: give each once"),
        ([], "--archs: name the architectures"),
        (["--archs", "transject"], "transject: --arch transject is a class"),
    ],
)
def test_mistakes_are_refused_before_the_first_training(
    options, message, data, tmp_path, monkeypatch
):
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # forks of this process need one thread
    out = tmp_path / "runs"
    with pytest.raises(SystemExit) as stopped:
        cli.main(["compare", str(data), *options, *SMALL, "--out", str(out)])
    assert re.search(f"odeformers compare: error: .*{message}", str(stopped.value))
    assert "\n" not in str(stopped.value)
    assert not out.exists()


def test_intervals_need_three_seeds():
    assert over_seeds([1.0], 1) == "1.0"
    assert over_seeds([1.0, 2.0], 1) == "1.5 ± 0.7"
    assert over_seeds([1.0, 2.0, 3.0], 1) == "2.0 ± 1.0 (-0.5 to 4.5)"
