"""Scores and states of trained models at other depths than in training, by the command."""

import csv
import gzip
import re
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from helpers import resolved
from make_checkpoints import PATHS, make, write_splits

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.models.common.dial import Dial
from odeformers.__main__ import main
from odeformers.analyse.depth import depth, judge, sentence

GOLDEN = [
    *("ot_transformer", "ot_transformer_lm", "ot_transformer_classifier", "node_transformer_mt"),
    *("transformer_lm_prenorm", "diffeq_transformer_lm"),
]
SLOW = "diffeq_transformer_lm.slow"  # as many steps as frequencies


@pytest.fixture(scope="module")
def paths(data, tmp_path_factory):
    """Checkpoints by name, beside a data set."""
    write_splits(data, valid=20)
    results = {}
    for name in GOLDEN:
        results[name] = data / name / "checkpoint_best.pt"
        results[name].parent.mkdir()
        results[name].write_bytes(gzip.decompress(PATHS[name].read_bytes()))
    results[SLOW] = data / SLOW / "checkpoint_best.pt"
    results[SLOW].parent.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(data)
        make(SLOW, ["--decoder-steps", "4"], str(results[SLOW]))
    return results


def run(paths, names, out, *options):
    """The rows of the table of depths."""
    data = paths[GOLDEN[0]].parents[1] / "words"
    words = [*(str(paths[name]) for name in names), "--data", str(data), "--out", str(out)]
    main(["analyse", "depth", *words, "--cpu", *options])
    with open(out / "depth.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_each_model_has_a_curve_with_its_trained_depth(paths, tmp_path, capsys):
    """Euler's method has order 1 for any task, and for an adaptive solver the tolerance varies."""
    names = ["ot_transformer", "ot_transformer_classifier", "node_transformer_mt", SLOW]
    rows = run(paths, names, tmp_path / "out")
    values = {}
    for row in rows:
        values.setdefault((row["model"], row["dial"]), []).append(row)
    steps = {place: [float(row["value"]) for row in curve] for place, curve in values.items()}
    tolerances = pytest.approx([0.1, 0.01, 0.001, 1e-4, 1e-5])
    assert steps == {
        ("ot_transformer", "ode_steps"): [1, 2, 5, 10, 20, 40],
        ("ot_transformer_classifier", "ode_steps"): [1, 2, 5, 10, 20, 40],
        ("node_transformer_mt", "ode_rtol"): tolerances,
        ("node_transformer_mt", "decoder_ode_steps"): [1, 2, 4, 8],
        (SLOW, "eval_steps"): [1, 2, 4, 8, 16, 32],
    }
    for (_, dial), curve in values.items():
        trained = [float(row["value"]) for row in curve if row["trained"] == "True"]
        assert trained in ([5], [4], [1], [0.001])
        errors = [float(row["error"]) for row in curve]
        assert errors[-1] < errors[0]
        if dial in ("ode_steps", "eval_steps"):
            assert float(curve[-2]["order"]) == pytest.approx(1, abs=0.25)
    output = capsys.readouterr().out
    assert "**ot_transformer**, `ode_steps`: " in output
    assert "still follows an ODE" in output
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {
        "depth.png",
        "convergence.png",
    }


def test_scores_equal_the_models_at_that_depth(paths, tmp_path):
    """A score is the mean over the tokens of a split, including the ends of its lines."""
    rows = run(paths, ["ot_transformer_lm"], tmp_path / "out", "--steps", "3")
    assert [row["value"] for row in rows] == ["3", "5"]
    path = paths["ot_transformer_lm"]
    for row in rows:
        model, task, _ = Checkpoint.read(str(path)).build(
            path.parents[1] / "words", ode_steps=int(row["value"])
        )
        task.load_dataset("valid")
        losses = []
        for number in range(len(task.dataset("valid"))):
            item = task.dataset("valid")[number]
            out = model.eval()(item["source"].unsqueeze(0))[0][0]
            losses.append(F.cross_entropy(out, item["target"], reduction="none"))
        expected = torch.cat(losses).mean()
        assert float(row["loss"]) == pytest.approx(expected.item(), rel=1e-5)
        assert float(row["perplexity"]) == pytest.approx(expected.exp().item(), rel=1e-4)


@pytest.mark.parametrize(
    "name, message",
    [
        ("transformer_lm_prenorm", "has a layer for each depth; use a model .* OT-Transformer"),
        ("diffeq_transformer_lm", "--time-frequencies 4: the features oscillate too fast for"),
    ],
)
def test_models_without_a_dial_are_refused_or_skipped(name, message, paths, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(paths, [name], tmp_path / "refused")
    assert re.search(message, capsys.readouterr().err)
    rows = run(paths, [name, "ot_transformer_lm"], tmp_path / "out", "--steps", "2")
    assert {row["model"] for row in rows} == {"ot_transformer_lm"}
    assert re.search(message, capsys.readouterr().err)


def test_the_default_models_have_dials():
    """DiffEqFormer has a dial with a few harmonic features, but not with the authors' code's."""
    for arch, names in (
        ("diffeq_transformer", {"eval_steps": 6}),
        ("diffeq_transformer_classifier", {"eval_steps": 6}),
        ("node_transformer_lm", {"decoder_ode_steps": 1}),
        ("ot_transformer", {"ode_steps": 5}),
    ):
        model = fairseq_model(arch)
        assert [dict(dial.trained) for dial in model.depth_dials(resolved(arch))] == [names]
    cfg = resolved("diffeq_transformer", SimpleNamespace(time_frequencies=128))
    with pytest.raises(ValueError, match="--time-frequencies 128"):
        fairseq_model("diffeq_transformer").depth_dials(cfg)
    published = "diffeq_transformer_lm_gpt2_small"
    with pytest.raises(ValueError, match="--time-features released"):
        fairseq_model(published).depth_dials(resolved(published))


def fairseq_model(arch):
    from fairseq.models import ARCH_MODEL_REGISTRY

    return ARCH_MODEL_REGISTRY[arch]


def test_panels_of_a_measure_have_the_same_scale():
    """Labels name families, and each panel an option."""
    figure = depth(
        {
            "depth": [
                {"model": model, "dial": dial, "value": value, "trained": value == 2}
                | {"perplexity": value * factor, "accuracy": None}
                for model, dial, factor in (
                    ("ot_transformer_lm", "ode_steps", 1),
                    ("diffeq_transformer_lm", "eval_steps", 9),
                )
                for value in (1, 2)
            ]
        }
    )
    first, second = figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert [axes.get_xlabel() for axes in figure.axes] == ["--ode-steps", "--eval-steps"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["OT-Transformer", "DiffEqFormer"]


@pytest.mark.parametrize(
    "losses, orders, follows, message",
    [
        ([2.1, 2.0, 2.0, 2.01], [None, 0.9, 1.1, 1.0], True, "still follows an ODE"),
        ([2.1, 2.0, 2.0, 2.03], [None, 0.9, 1.1, 1.0], False, "no longer follows an ODE"),
        ([2.1, 2.0, 1.9, 1.9], [None, 0.9, 0.3, 1.0], False, "the verdict is inconclusive"),
        ([2.0, 2.0, 2.0 - 1e-9], [None, 0.9, 1.0], True, "change the loss by +0.00% at worst"),
        ([2.1, 2.0], [None, 0.9], None, "no finer solution was measured"),
    ],
)
def test_a_model_follows_an_ode_if_finer_solutions_are_as_good(losses, orders, follows, message):
    """Scores are at most 1% worse, and their order is near the method's."""
    rows = [
        {"trained": number == 1, "loss": loss, "order": order}
        for number, (loss, order) in enumerate(zip(losses, orders))
    ]
    verdict = judge(Dial({"ode_steps": 5}, 1), rows)
    assert verdict["follows"] is follows
    assert message in sentence({"model": "ot", "dial": "ode_steps", **verdict})
