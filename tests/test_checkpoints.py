"""Checkpoints of earlier commits load and compute the same.

The files in ``checkpoints`` are what fairseq's trainer saved when ``make_checkpoints.py`` made
them. They are loaded as fairseq's commands load a checkpoint, which gives options that are younger
than the file their defaults, and drops those that have gone.
"""

import gzip

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY
from make_checkpoints import PATHS

import fairseq_odeformers

ADAPTIVE = ("dopri5", "bosh3", "fehlberg2", "adaptive_heun", "dopri8")


def tolerance(cfg):
    """Ten times that of an adaptive solver, which may come to choose other steps."""
    if getattr(cfg, "ode_method", None) in ADAPTIVE:
        return 10 * max(cfg.ode_rtol, cfg.ode_atol)
    return 1e-5


@pytest.mark.parametrize("name", PATHS)
def test_computes_the_same(name, data, tmp_path, monkeypatch):
    """In float32, from initial values that differ, so that all of it comes from the checkpoint."""
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(gzip.decompress(PATHS[name].read_bytes()))
    monkeypatch.chdir(data)
    saved = torch.load(path, weights_only=True)
    (model,), cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    with torch.no_grad():
        output = model.eval()(**saved["call"])[0]
    torch.testing.assert_close(output, saved["output"], rtol=1e-5, atol=tolerance(cfg.model))


def test_every_architecture_has_a_checkpoint():
    package = fairseq_odeformers.__name__ + "."
    ours = {k for k, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith(package)}
    missing = ours - {name.split(".")[0] for name in PATHS}
    commands = [f"python tests/make_checkpoints.py {arch}" for arch in sorted(missing)]
    assert not commands, "run, and commit the files:\n" + "\n".join(commands)
