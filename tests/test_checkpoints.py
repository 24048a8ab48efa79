"""Checkpoints of version 0.1.0 load and compute the same.

The files in ``checkpoints``, one for each model and a few for its variants, are what fairseq's
trainer saved when ``make_checkpoints.py`` made them. They are loaded as fairseq's commands load a
checkpoint: newer options get their defaults, and options that are gone are dropped.
"""

import pytest
import torch
from fairseq import checkpoint_utils
from make_checkpoints import MODELS, PATHS

ADAPTIVE = ("dopri5", "bosh3", "fehlberg2", "adaptive_heun", "dopri8")


def tolerance(cfg):
    """Ten times that of an adaptive solver, which may come to choose other steps."""
    if getattr(cfg, "ode_method", None) in ADAPTIVE:
        return 10 * max(cfg.ode_rtol, cfg.ode_atol)
    return 1e-5


@pytest.mark.parametrize("name", PATHS)
def test_computes_the_same(name, data, checkpoint, monkeypatch):
    """In float32, from initial values that differ, so that all of it comes from the checkpoint."""
    path = checkpoint(name)
    monkeypatch.chdir(data)
    saved = torch.load(path, weights_only=True)
    (model,), cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    with torch.no_grad():
        output = model.eval()(**saved["call"])[0]
    torch.testing.assert_close(output, saved["output"], rtol=1e-5, atol=tolerance(cfg.model))


def test_every_model_has_a_checkpoint():
    missing = set(MODELS) - PATHS.keys()
    commands = [f"python tests/make_checkpoints.py {arch}" for arch in sorted(missing)]
    assert not commands, "run, and commit the files:\n" + "\n".join(commands)
