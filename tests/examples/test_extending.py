"""The example architectures, and the page's architecture, have the stated properties."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from helpers import PAD, make_model
from script_helpers import ROOT, USER_DIR, command, lines, module
from torchdiffeq import odeint

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.registry import import_plugins
from odeformers.__main__ import main
from odeformers.check.command import check

PLUGIN = ROOT / "examples" / "extending"
ARCH = "implicit_transformer_classifier_4"
SIZES = ["--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 32, "--encoder-attention-heads", 2]
SIZES += ["--encoder-layers", 2]


@pytest.fixture(scope="module")
def words(training_data):
    return training_data / "words"


@pytest.fixture(scope="module")
def checkpoint(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    command(
        *["train", words, "--user-dir", PLUGIN, "--arch", ARCH, *SIZES],
        *["--task", "long_range_arena", "--criterion", "sequence_classification"],
        *["--optimizer", "adam", "--lr", 0.003, "--batch-size", 8, "--max-update", 2],
        *["--save-dir", folder, "--no-progress-bar", "--disable-validation"],
    )
    return folder / "checkpoint_last.pt"


def test_every_program_accepts_the_folder(words, checkpoint, tmp_path, capsys):
    """A program accepts several folders as well."""

    def run(*line):
        main([*map(str, line), "--user-dir", str(PLUGIN)])
        return capsys.readouterr().out

    table, text = tmp_path / "test.tsv", tmp_path / "text"
    predict = ["predict", words, "--path", checkpoint, "--cpu"]
    several = [*predict, "--split", "valid", "--output", table, "--user-dir", PLUGIN]
    assert "valid: accuracy" in module("odeformers", *several, "--user-dir", USER_DIR)
    assert len(lines(table)) == 1 + 8
    text.write_text("1 1 2\n")
    assert "\t1 1 2\t" in run(*predict, "--text", text)
    run("export", checkpoint, tmp_path / "weights")
    assert (tmp_path / "weights/config.json").exists()
    out = ["--data", words, "--out", tmp_path / "states", "--split", "valid", "--cpu"]
    run("analyse", "states", checkpoint, *out)
    assert (tmp_path / "states/index.md").exists()
    sizes = "--lengths 8 --batch 1 --rounds 1 --vocabulary 20 --layers 1 --embed-dim 16"
    sizes += f" --ffn-embed-dim 32 --heads 2 --models transformer_classifier {ARCH}"
    assert f"| {ARCH} |" in run("benchmark", "encoder", *sizes.split())


@pytest.fixture(scope="module")
def plugin():
    import_plugins([str(PLUGIN)])
    return sys.modules["extending"]


def test_the_option_reaches_the_layers(plugin, checkpoint):
    """fairseq's layers receive fairseq's config, which has the option."""
    model, *_ = Checkpoint.read(str(checkpoint)).build()
    assert [layer.iterations for layer in model.encoder.layers] == [4, 4]


@pytest.mark.parametrize("iterations", [1, 2, 30])
def test_iterations_solve_the_implicit_step(plugin, iterations):
    """For y' = y / 2 the iterations are partial sums of a geometric series, to implicit Euler's."""
    x = torch.ones(3, 2, 8)
    y = plugin.implicit_step(lambda index, y: y + y / 2, x, iterations)
    assert torch.allclose(y, x * (2 - 0.5**iterations))


@pytest.mark.parametrize("alpha", [0.3, 0.5, 1])
def test_the_step_of_the_page_has_order_2(page_plugin, alpha):
    """For y' = y / 2 the step has the first three terms of the exponential function."""
    x = torch.ones(3, 2, 8)
    y = page_plugin.rk2_step(lambda number, y: y + y / 2, x, alpha)
    assert torch.allclose(y, x * (1 + 1 / 2 + 1 / 8))


def test_the_mixer_of_the_page_is_a_weighted_mean_of_the_tokens_so_far(page_plugin):
    mixer, x = sys.modules["causal_mean"].CausalMean(8), torch.randn(5, 2, 8)
    weights, values = mixer.weight(x).sigmoid(), mixer.value(x)
    means = [
        (weights[:end] * values[:end]).sum(0) / weights[:end].sum(0) for end in range(1, len(x) + 1)
    ]
    assert torch.allclose(mixer(x)[0], mixer.out(torch.stack(means)), atol=1e-6)


def listing_of(heading, page="docs/extending.md"):
    section = (ROOT / page).read_text("utf-8").split(f"# {heading}\n")[1]
    return re.search(r"```python\n(.*?)```", section, re.S)[1]


def test_the_page_tests_its_model_in_python(page_plugin, monkeypatch):
    """Its listing, in the clone with the plugin's folder."""
    monkeypatch.chdir(Path(page_plugin.__file__).parents[1])
    exec(listing_of("Check and compare it"), {})


def test_the_test_of_the_page_sees_another_method(page_plugin, monkeypatch):
    monkeypatch.chdir(Path(page_plugin.__file__).parents[1])
    monkeypatch.setattr(page_plugin, "rk2_step", lambda layer, x, alpha: layer(0, x))
    with pytest.raises(AssertionError):
        exec(listing_of("Check and compare it"), {})


def test_the_models_of_the_page_have_the_stated_sizes(page_plugin):
    variables = vars(page_plugin) | {}
    exec(listing_of("Layers of another size"), variables)
    sizes = {"ffn_embed_dim": 512, "layers": 2}
    assert variables["TwoFFNsPerLayer"].side_sizes(sizes, {}) == {"ffn_embed_dim": 256, "layers": 2}
    assert variables["HalfLayers"].side_sizes(sizes, {}) == {"ffn_embed_dim": 512, "layers": 4}


def test_the_layers_of_the_reference_share_their_coefficients():
    """All layers use the module of the stack, and their gradients reach it."""
    variables, cfg = {}, TransformerConfig()
    exec(listing_of("Modules for all layers", "docs/reference/building_blocks.md"), variables)
    cfg.encoder.embed_dim, cfg.encoder.ffn_embed_dim, cfg.encoder.layers = 16, 32, 2
    words = make_dictionary(["a", "b"])
    encoder = variables["LearnedEncoder"](cfg, words, torch.nn.Embedding(len(words), 16, PAD))
    encoder(torch.tensor([[4, 5, 2]]))["encoder_out"][0].square().sum().backward()
    (gamma,) = (p for name, p in encoder.named_parameters() if name.endswith("gamma"))
    assert gamma is encoder.coefficients.gamma and gamma.grad.all()


def test_slopes_equal_adams_and_bashforths(plugin):
    """For y' = y the states are 1, 2, then 2 + 3/2 2 - 1/2 = 9/2, then 9/2 + 27/4 - 1."""
    multistep = plugin.adams_bashforth.AdamsBashforthBlock
    block = multistep.__new__(multistep)
    torch.nn.Module.__init__(block)
    block.layers = [lambda y: y + y] * 3
    assert block(torch.ones(1)).item() == 4.5 + 1.5 * 4.5 - 1


@pytest.mark.parametrize("options", [[], ["--checkpoint-activations"]])
def test_a_block_with_slopes_has_the_properties_of_check(plugin, options):
    """The properties also hold where backward evaluates the layers again."""
    verdicts = check("adams_bashforth_classifier", *options)
    assert [str(verdict) for verdict in verdicts if verdict.fault] == []


@pytest.mark.parametrize("steps", ["0", "2"], ids=["adaptive", "on a grid"])
def test_a_layer_solves_its_field(plugin, steps):
    """torchdiffeq's solution of the equation for each text, in a batch with padding."""
    model = make_model("mean_field_classifier", "--grid-steps", steps).eval()
    layer = model.encoder.layers[0]
    a, b, c, d, e = layer.field.parameters()
    assert (a.dim(), b.dim(), c.dim(), d.dim(), e.dim()) == (2, 1, 1, 2, 1)

    def field(t, x):  # (T, C)
        inner = torch.cat([x, x.mean(0).expand_as(x)], -1) @ a.T + b + c * t
        return inner.tanh() @ d.T + e

    padding, x = (
        torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
        torch.randn(5, 2, a.size(1) // 2),
    )
    x[3:, 1] = 0
    out, _ = layer(x, padding)
    times = torch.tensor([0.0, 1.0])
    for index, length in enumerate([5, 3]):
        options = {"method": "rk4", "options": {"step_size": 0.5}} if steps == "2" else {}
        expected = odeint(field, x[:length, index], times, **options)[-1]
        atol = 1e-5 if steps == "2" else 1e-2  # the tolerance of the layer is 1e-3
        assert torch.allclose(out[:length, index], expected, atol=atol)


@pytest.mark.parametrize("options", [[], ["--grid-steps", "0"]], ids=["on a grid", "adaptive"])
def test_layers_that_solve_an_ode_have_the_properties_of_check(plugin, options):
    verdicts = check("mean_field_classifier", *options)
    assert [str(verdict) for verdict in verdicts if verdict.fault] == []


def test_a_block_of_all_layers_has_momentum(plugin):
    """For y' = y and m = 1/2: x = 1 + 1, then v = 1/2 + 2 and x = 9/2, then v = 5/4 + 9/2."""
    momentum = plugin.momentum.MomentumBlock
    block = momentum([lambda y: y + y] * 3, 0.5)
    assert block(torch.ones(1)).item() == 4.5 + 1.25 + 4.5
    decoder = momentum([lambda y: (y + y, "attention", None)], 0.5)
    assert decoder(torch.ones(1)) == (torch.full((1,), 2.0), "attention", None)


@pytest.mark.parametrize("options", [[], ["--checkpoint-activations"]])
def test_momentum_has_the_properties_of_check(plugin, options):
    """Encoder and decoder have them; without momentum the model is the pre-norm Transformer."""
    verdicts = check("momentum_transformer", *options)
    assert [str(verdict) for verdict in verdicts if verdict.fault] == []
    sizes = ["--encoder-layers", "3", "--decoder-layers", "3"]
    ours = make_model("momentum_transformer", *sizes, "--momentum", "0").eval()
    plain = make_model("transformer_prenorm", *sizes).eval()
    state = ours.state_dict().items()
    state = {name.replace("layers.0.layers.", "layers."): tensor for name, tensor in state}
    plain.load_state_dict(state)
    tokens = torch.randint(4, 50, (2, 5))
    inputs = tokens, torch.tensor([5, 5]), tokens
    assert torch.allclose(ours(*inputs)[0], plain(*inputs)[0], atol=1e-5)


KINDS = ("", "_classifier", "_lm")
IMPLICIT = [f"implicit_transformer{kind}" for kind in KINDS]
OF_PAGE = [*(f"rk2_transformer{kind}" for kind in KINDS)]
OF_PAGE += ["mean_classifier", "causal_mean_transformer"]


@pytest.mark.parametrize("arch", [*IMPLICIT, *OF_PAGE])
def test_all_examples_have_the_properties_of_check(plugin, page_plugin, arch):
    assert [str(verdict) for verdict in check(arch) if verdict.fault] == []


@pytest.mark.parametrize("iterations", ["1", "3"])
def test_the_language_model_generates_as_it_trains(plugin, iterations):
    """Decoding token by token, with texts dropped and reordered, uses one cache per evaluation."""
    model = make_model("implicit_transformer_lm", "--implicit-iterations", iterations).eval()
    tokens, state = torch.randint(4, 50, (3, 7)), {}
    for length in range(1, 8):
        if length == 4:
            order = torch.tensor([2, 0])
            tokens = tokens[order]
            model.decoder.reorder_incremental_state_scripting(state, order)
        step, _ = model.decoder(tokens[:, :length], incremental_state=state)
        full, _ = model.decoder(tokens[:, :length])
        assert (step[:, 0] - full[:, -1]).abs().max() < 1e-5


def test_a_layer_works_without_a_model_of_fairseq(plugin):
    """Padding changes nothing, and the gradients of all parameters are finite."""
    encoder = import_module("extending.plain").TextEncoder()
    tokens = torch.tensor([[8, 9, 0], [5, 6, 7]])
    states = encoder(tokens)
    assert torch.allclose(states[:1, :2], encoder(tokens[:1, :2]), atol=1e-5)
    states.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())
