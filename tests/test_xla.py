"""fairseq's TPU mode trains like a CPU, under torch_xla with its client for CPUs.

``make test-xla`` runs it, in an environment with torch_xla.
"""

import pytest
import torch
import torch.nn.functional as F
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from make_checkpoints import MODELS, parsed, task_of, training_line
from script_helpers import trainings

from fairseq_odeformers import load_classifier, load_language_model, load_translator

torch_xla = pytest.importorskip("torch_xla", reason="needs torch_xla: make test-xla")
SOLVER = "--ode-method rk4 --ode-steps 2".split()  # adaptive steps are refused
EPOCHS = ["--max-epoch", 4, "--max-update", 0, "--optimizer", "sgd", "--lr", 0.05]
BUCKETS = "--num-batch-buckets 2 --max-tokens 48".split()
OPTIONS = {"translation": BUCKETS, "sentence_prediction": ["--task", "long_range_arena", *BUCKETS]}
USES = {
    "translation": lambda *paths: load_translator(*paths).translate(["1 2 3"]),
    "sentence_prediction": lambda *paths: load_classifier(*paths).classify(["1 2 3"]),
    "language_modeling": lambda *paths: load_language_model(*paths).score(["1 2 3"]),
}


def line(arch, *options):
    """Options of four epochs of equal shapes, the last of which is validated."""
    model = ARCH_MODEL_NAME_REGISTRY[arch]
    solver = SOLVER if model in ("node_transformer", "node_transformer_mt") else []
    line = training_line(arch, *EPOCHS, *OPTIONS.get(task_of(arch), []), *solver, *options)
    line[line.index("--disable-validation")] = "--validate-interval=4"
    return line


@pytest.fixture(scope="module", params=MODELS)
def trained(request, training_data):
    """The architecture, and checkpoint and log of a training on the CPU and of one by XLA."""
    results = []
    for device in ([], ["--tpu"]):
        saved = training_data / request.param / "".join(["cpu", *device])
        config = parsed(line(request.param, *device, "--save-dir", saved))
        (log,) = trainings([config], training_data, PJRT_DEVICE="CPU")
        results.append((saved / "checkpoint_last.pt", log))
    return request.param, *results


def test_xla_trains_like_a_cpu(trained):
    """Validation losses and weights agree."""
    _, *results = trained
    expected, state = (torch.load(path) for path, _ in results)
    losses = [saved["extra_state"]["val_loss"] for saved in (expected, state)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    for name, tensor in expected["model"].items():
        assert (state["model"][name] - tensor).abs().max() < 1e-4, name


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("activation", [F.elu, F.celu])
def test_gradients_of_exponential_units_equal_a_cpus(activation, inplace):
    """torch_xla 2.9 computes the slope 1 + x for negative inputs x."""
    slopes = []
    for device in ("cpu", torch_xla.device()):
        x = torch.linspace(-4, 4, 9, device=device, requires_grad=True)
        (slope,) = torch.autograd.grad(activation(x.clone(), inplace=inplace).sum(), x)
        slopes.append(slope.cpu())
    assert torch.allclose(*slopes, rtol=1e-6, atol=0)


def test_known_shapes_are_not_compiled_again(trained):
    _, _, (_, log) = trained
    epochs = log.split("begin training epoch")[1:]
    assert len(epochs) == 4
    compiled = ["XLA compilation detected" in epoch for epoch in epochs]
    assert compiled[0] and not any(compiled[2:])


def test_a_cpu_uses_xlas_checkpoint(trained, training_data):
    """The CPU translates, classifies or scores with it."""
    arch, _, (path, _) = trained
    if task_of(arch) == "masked_lm":
        pytest.skip("it has no class and no text to tell")
    assert USES[task_of(arch)](path, training_data / "words")
