"""Checkpoints of version 0.1.0 load and compute the same.

The files in ``golden``, one for each model and a few for its variants, are what fairseq's
trainer saved when ``make_checkpoints.py`` made them. Newer options get their defaults, and options
that are gone are dropped. The ways to load one build the same model; those of each kind show it.
"""

import itertools

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY
from make_checkpoints import MODELS, PATHS

from fairseq_odeformers.checkpoints import Checkpoint

ADAPTIVE = ("dopri5", "bosh3", "fehlberg2", "adaptive_heun", "dopri8")


def tolerance(options):
    """The tolerance: ten times an adaptive solver's, which may take other steps."""
    if options.get("ode_method") in ADAPTIVE:
        return 10 * max(options["ode_rtol"], options["ode_atol"])
    return 1e-5


def as_commands_do(path, arch, data, monkeypatch):
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    return model


def by_a_loader(path, arch, data, monkeypatch):
    return Checkpoint.read(str(path)).build().model


def from_pretrained(path, arch, data, monkeypatch):
    model = ARCH_MODEL_REGISTRY[arch].from_pretrained(
        str(path.parent), path.name, data_name_or_path=data
    )
    return model.models[0] if hasattr(model, "models") else model.model


def as_an_export(path, arch, data, monkeypatch):
    """Load an export, for which nothing is unpickled."""
    pytest.importorskip("safetensors")
    Checkpoint.read(str(path)).export(path.parent / "out")
    monkeypatch.setattr(torch, "load", None)
    return Checkpoint.read(str(path.parent / "out")).build().model


OTHERS = [as_commands_do, from_pretrained, as_an_export]
KINDS = [  # one of each kind of model and data
    *("transevolve", "node_transformer_lm", "macaron_bert", "macaron_classifier"),
    *("macaron_classifier.pairs", "transject.pixels"),
]


@pytest.mark.parametrize(
    "name, load",
    [*((name, by_a_loader) for name in PATHS), *itertools.product(KINDS, OTHERS)],
)
def test_checkpoints_compute_the_same(name, load, data, checkpoint, monkeypatch):
    """Outputs are those saved in float32, although the model starts from other parameters."""
    if "bert" in name and load == from_pretrained:
        pytest.skip("fairseq's RoBERTa downloads its subwords")
    path = checkpoint(name)
    monkeypatch.chdir(data)
    saved = torch.load(path, weights_only=True)
    options = saved["cfg"]["model"]
    folder = str(data / saved["cfg"]["task"].get("data", "words"))
    model = load(path, name.split(".")[0], folder, monkeypatch)
    model.eval()
    with torch.no_grad():
        output = model(**saved["call"])[0]
    torch.testing.assert_close(output, saved["output"], rtol=1e-5, atol=tolerance(options))


def test_every_model_has_a_checkpoint():
    missing = set(MODELS) - PATHS.keys()
    commands = [f"python tests/make_checkpoints.py {arch}" for arch in sorted(missing)]
    assert not commands, "run, and commit the files:\n" + "\n".join(commands)
