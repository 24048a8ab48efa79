"""fairseq's TPU mode trains what a CPU trains, under torch_xla with its client for CPUs.

Run by ``make test-xla``, in an environment with torch_xla.
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
    """Of four epochs of the same shapes, the last of which is validated."""
    model = ARCH_MODEL_NAME_REGISTRY[arch]
    solver = SOLVER if model in ("node_transformer", "node_transformer_mt") else []
    line = training_line(arch, *EPOCHS, *OPTIONS.get(task_of(arch), []), *solver, *options)
    line[line.index("--disable-validation")] = "--validate-interval=4"
    return line


@pytest.fixture(scope="module", params=MODELS)
def found(request, training_data):
    """The architecture; and of a training on the CPU, and of one by XLA, the checkpoint and log."""
    results = []
    for device in ([], ["--tpu"]):
        saved = training_data / request.param / "".join(["cpu", *device])
        config = parsed(line(request.param, *device, "--save-dir", saved))
        (log,) = trainings([config], training_data, PJRT_DEVICE="CPU")
        results.append((saved / "checkpoint_last.pt", log))
    return request.param, *results


def test_xla_trains_what_a_cpu_trains(found):
    """The loss of validation and the weights."""
    _, *results = found
    expected, state = (torch.load(path) for path, _ in results)
    losses = [saved["extra_state"]["val_loss"] for saved in (expected, state)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    for name, tensor in expected["model"].items():
        assert (state["model"][name] - tensor).abs().max() < 1e-4, name


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("activation", [F.elu, F.celu])
def test_gradient_of_exponential_units(activation, inplace):
    """torch_xla 2.9 computes the slope 1 + x of negative inputs x."""
    slopes = []
    for device in ("cpu", torch_xla.device()):
        x = torch.linspace(-4, 4, 9, device=device, requires_grad=True)
        (slope,) = torch.autograd.grad(activation(x.clone(), inplace=inplace).sum(), x)
        slopes.append(slope.cpu())
    assert torch.allclose(*slopes, rtol=1e-6, atol=0)


def test_nothing_is_compiled_once_the_shapes_have_been_seen(found):
    _, _, (_, log) = found
    epochs = log.split("begin training epoch")[1:]
    assert len(epochs) == 4
    compiled = ["XLA compilation detected" in epoch for epoch in epochs]
    assert compiled[0] and not any(compiled[2:])


def test_cpu_uses_what_xla_has_trained(found, training_data):
    """It translates, classifies or scores."""
    arch, _, (path, _) = found
    if task_of(arch) == "masked_lm":
        pytest.skip("it has no class and no text to tell")
    assert USES[task_of(arch)](path, training_data / "words")
