"""Every registered classifier: padding, gradients, RoBERTa's interface, pairs, checkpoints.

But presets of TransEvolve and TransJect whose feed-forward layers, blocks and norms others have.
"""

import pytest
import torch
from helpers import (
    CLASSIFIERS,
    HEAD,
    PAD,
    Task,
    make_classifier,
    scores,
    source_batch,
    wake,
)

OTHERS = [
    *("transevolve_classifier", "transject_lra", "transject_lra_random"),
    *(f"transevolve_classifier_{name}" for name in ("fullff_1", "randomff_2")),
    *(f"transevolve_classifier_{name}_prenorm" for name in ("fullff_2", "randomff_1")),
]


@pytest.fixture(params=[arch for arch in CLASSIFIERS if arch not in OTHERS])
def arch(request):
    return request.param


@pytest.fixture
def model(arch):
    return wake(make_classifier(arch)).eval()


def test_padding_changes_nothing(arch):
    """A text alone, and in a batch, padded on either side, also beyond its longest text."""
    model = wake(make_classifier(arch, "--pooling", "mean")).eval()
    left, _ = source_batch()
    right = torch.stack([torch.cat([row[row != PAD], row[row == PAD]]) for row in left])
    alone = torch.cat([scores(model, row[row != PAD].unsqueeze(0)) for row in left])
    for tokens in (left, right, torch.nn.functional.pad(right, (0, 2), value=PAD)):
        with torch.no_grad():
            assert (scores(model, tokens) - alone).abs().max() < 1e-5


@pytest.mark.parametrize("mixed", [False, True])
def test_every_parameter_gets_a_gradient(arch, mixed):
    """A step of training, in automatic mixed precision as well."""
    model = wake(make_classifier(arch))
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        loss = scores(model, source_batch()[0]).float().square().sum()
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name


def test_every_token_counts(model):
    """A change of any token changes the scores; a classifier with positions sees their order."""
    tokens = torch.randint(4, 50, (1, 8))
    before = scores(model, tokens)
    for index in range(8):
        changed = tokens.clone()
        changed[0, index] = (tokens[0, index] + 1) % 46 + 4
        assert (scores(model, changed) - before).abs().max() > 1e-6
    if getattr(model.encoder, "embed_positions", True) is not None:
        assert (scores(model, tokens.flip(1)) - before).abs().max() > 1e-5


def test_states_without_a_head(model):
    """As RoBERTa: (B, T, C)."""
    states, extra = model(torch.randint(4, 50, (2, 8)), features_only=True)
    assert states.shape == (2, 8, 16)
    assert all(value.shape == (2,) for value in extra["regularizers"].values())


def test_half_precision(model):
    assert scores(model.bfloat16(), source_batch()[0]).isfinite().all()


def test_state_of_another_task_starts_a_new_one(arch, caplog):
    """The encoder is taken over, heads that do not fit are not; a head that fits is."""
    old, new = make_classifier(arch, classes=3), make_classifier(arch, classes=5)
    old.register_classification_head("other", num_classes=2)
    new.load_state_dict(old.state_dict())
    assert "classification_heads.other.out_proj.weight" in caplog.text
    assert new.classification_heads[HEAD].out_proj.out_features == 5
    tokens = torch.randint(4, 50, (2, 8))
    assert torch.equal(old.eval()(tokens)[0], new.eval()(tokens)[0])
    same = make_classifier(arch, classes=3)
    torch.nn.init.normal_(wake(old).classification_heads[HEAD].out_proj.weight)
    same.load_state_dict(old.state_dict())
    assert torch.equal(scores(old, tokens), scores(same.eval(), tokens))


@pytest.mark.parametrize(
    "arch", [a for a in CLASSIFIERS if not a.startswith(("transe", "transj", "node"))]
)
def test_activation_checkpointing_changes_no_gradient(arch):
    gradients = []
    for extra in ([], ["--checkpoint-activations"]):
        model = wake(make_classifier(arch, *extra, "--dropout", "0.1"))
        wrapped = [hasattr(layer, "precheckpoint_forward") for layer in model.encoder.layers]
        assert wrapped == [bool(extra)] * len(wrapped)
        torch.manual_seed(3)
        scores(model, source_batch()[0]).square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for a, b in zip(*gradients):
        assert torch.allclose(a, b, atol=1e-5)


# --- pairs and pixels ------------------------------------------------------


class Pairs(Task):
    towers = 2


def test_the_texts_of_a_pair_are_encoded_alike(arch):
    """Exchanging them is exchanging the parts of the head's matrix, and the sign of one."""
    model = wake(make_classifier(arch, task=Pairs())).eval()
    head = model.classification_heads[HEAD]
    layer = next(layer for layer in (*head.hidden, head.out_proj))
    a, _ = source_batch()
    b = torch.randint(4, 50, (3, 5))
    expected = scores(model, a, b)
    first, second, product, difference = layer.weight.data.split(16, dim=1)
    layer.weight.data = torch.cat([second, first, product, -difference], dim=1)
    assert torch.allclose(scores(model, b, a), expected, atol=1e-5)
    layer.weight.data = torch.cat([first, second, product, difference], dim=1)
    assert not torch.allclose(scores(model, b, a), expected, atol=1e-3)


class Pixels(Task):
    pixel_values = True

    def __init__(self):
        super().__init__(4 + 256)
        for index in range(256):
            self.dictionary.symbols[4 + index] = str(index)


def test_pixels_as_numbers(arch):
    """Scores depend on them smoothly: a neighbouring intensity changes them little."""
    model = wake(make_classifier(arch, task=Pixels())).eval()
    assert not any(p.size(0) == 260 for p in model.parameters())
    image = torch.randint(4 + 100, 4 + 120, (1, 16))
    near, far = (scores(model, image + step) - scores(model, image) for step in (1, 130))
    assert 0 < near.abs().max() < far.abs().max()


# --- sizes and options -----------------------------------------------------


@pytest.mark.parametrize(
    "arch, parameters",
    [
        ("transformer_classifier", 6 * (4 * 256 * 257 + 2 * 256 * 1024 + 1024 + 256 + 4 * 256)),
        (
            "transformer_classifier_orthogonal",
            6 * (4 * 256 * 257 + 2 * 256 * 1024 + 1024 + 256 + 4 * 256),
        ),
        ("transformer_classifier_rezero", 6 * (4 * 256 * 257 + 2 * 256 * 1024 + 1024 + 256 + 1)),
        (
            "macaron_classifier",
            6 * (4 * 256 * 257 + 4 * 256 * 512 + 2 * (512 + 256) + 6 * 256) + 512,
        ),
        (
            "transevolve_classifier_fullff_1",
            2 * 256 * 512
            + 256 * 512
            + 6 * (256 + 256 * 256 + 2 * 256 * 1024 + 1024 + 5 * 256)
            + 512,
        ),
        (
            "transevolve_classifier_randomff_2",
            2 * (3 * 256 * 512 + 3 * (256 + 256 * 256 + 2 * 256 + 1024 + 5 * 256) + 512),
        ),
        ("vanilla_transformer", 2 * (4 * 8 * 9 + 2 * 8 * 9) + 2 * 8 * 9),
        ("node_transformer", 2 * (4 * 8 * 9 + 2 * 8 * 9 + 2 * 8) + 2 * 8 * 9),
    ],
)
def test_parameters(arch, parameters):
    """Those of the layers, beside an embedding of 50 words and a head of three classes."""
    model = make_classifier(arch, sizes=[])
    head = model.classification_heads[HEAD]
    d = head.out_proj.in_features
    others = 50 * d + 3 * (d + 1) + sum(p.numel() for p in head.layer_norm.parameters())
    assert sum(p.numel() for p in model.parameters()) == parameters + others


@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("transformer_classifier", ["--encoder-attention-heads", "3"], "heads 3: give a divisor"),
        ("vanilla_transformer", ["--encoder-embed-dim", "9"], "heads 4: give a divisor .*dim 9"),
        ("transevolve_classifier", ["--encoder-depth", "0"], "--encoder-depth 0: give at least 1"),
        (
            "transformer_classifier_rezero",
            ["--encoder-normalize-before"],
            "--encoder-normalize-before True: .* no LayerNorm; leave the option out",
        ),
        (
            "transformer_classifier",
            ["--quant-noise-scalar", "0.1"],
            "--quant-noise-scalar 0.1: .* leave the option out",
        ),
        (
            "macaron_classifier",
            ["--classifier-hidden-layers", "-1"],
            "--classifier-hidden-layers -1: give at least 0",
        ),
        ("transject", ["--max-positions", "0"], "--max-positions 0: give at least 1"),
    ],
)
def test_bad_options(arch, options, message):
    with pytest.raises(ValueError, match=message):
        make_classifier(arch, sizes=options)


def test_vanilla_transformer_has_positions_if_asked():
    option = "--token-positional-embeddings"
    assert make_classifier("vanilla_transformer").encoder.embed_positions is None
    assert make_classifier("vanilla_transformer", option).encoder.embed_positions is not None


@pytest.mark.parametrize("extra, p", [([], 0.3), (["--embedding-dropout", "0.2"], 0.2)])
def test_dropout_of_embeddings_has_its_own_option(extra, p):
    model = make_classifier("macaron_classifier", "--dropout", "0.3", *extra)
    assert model.encoder.dropout_module.p == p
    assert model.encoder.layers[0].dropout_module.p == 0.3


def test_layers_to_keep():
    model = make_classifier("transformer_classifier", "--encoder-layers-to-keep", "0,2")
    assert len(model.encoder.layers) == 2


def test_longest_input_is_the_task_s():
    assert make_classifier("macaron_classifier").max_positions() == 64
    assert make_classifier("macaron_classifier", "--max-positions", "9").max_positions() == 9
