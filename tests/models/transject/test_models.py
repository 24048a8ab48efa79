"""TransJect's models: the encoder's formula, distances, sizes, and options that are refused."""

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import HEAD, PAD, Task, make_classifier, make_lm

CLASSIFIERS = ["transject", "transject_random"]


def wake(model):
    """Residual weights as they may become in training, and gates that tell experts apart."""
    torch.manual_seed(2)
    for name, parameter in model.named_parameters():
        if name.endswith(("residual_weight", "gate.weight")):
            torch.nn.init.normal_(parameter, std=2.0)
    return model


@pytest.mark.parametrize("arch", CLASSIFIERS)
def test_encoder(arch):
    """X_0, the eigenvalues once, then the layers in turn; the states of each are returned."""
    encoder = wake(make_classifier(arch)).encoder
    tokens = torch.randint(4, 50, (2, 8))
    tokens[1, 5:] = PAD
    out = encoder(tokens, return_all_hiddens=True)
    x = encoder.embedding(tokens)
    sigma, regularizers = encoder.eigenvalues(x)
    expected = [x]
    for layer in encoder.layers:
        expected.append(layer(expected[-1], sigma, tokens.eq(PAD)))
    assert len(out["encoder_states"]) == len(expected)
    for state, own in zip(out["encoder_states"], expected):
        assert torch.equal(state.transpose(0, 1), own)
    assert torch.equal(out["encoder_out"][0], out["encoder_states"][-1])
    assert out["regularizers"].keys() == regularizers.keys()
    assert ("reconstruction" in regularizers) == (arch == "transject")
    assert encoder.eval()(tokens)["regularizers"] == {}


@pytest.mark.parametrize("arch", CLASSIFIERS)
@pytest.mark.parametrize("lr", [0.0, 3e-2])
def test_distances_stay_within_the_bound(arch, lr):
    """Of any two tokens, before and after updates: between (1 - 1/L)^2L and (1 + 1/L)^2L times.

    The slope of ELU is at most 1, U and V keep distances, sigma is at most 1, and so is alpha: an
    expert adds at most 1/L of a distance. The paper's bound has 3/L.
    """
    model = wake(make_classifier(arch, "--encoder-layers", "4"))
    tokens = torch.randint(4, 50, (8, 12))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(20):
        logits, _ = model(tokens, classification_head_name=HEAD)
        torch.nn.functional.cross_entropy(logits, tokens[:, 0] % 3).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        states = model.eval().encoder(tokens, return_all_hiddens=True)["encoder_states"]
    before, after = (torch.stack([torch.pdist(x) for x in states[i].unbind(1)]) for i in (0, -1))
    ratio = after / before
    assert ratio.max() < (1 + 1 / 4) ** 8 < (1 + 3 / 4) ** 8
    assert ratio.min() > (1 - 1 / 4) ** 8
    assert 0.5 < ratio.median() < 2


@pytest.mark.parametrize(
    "experts, exact, paper", [(1, 6_607_622, 6.62e6), (8, 28_630_790, 28.68e6)]
)
def test_parameters_of_the_character_encoder(experts, exact, paper):
    """Table 5 (divided by ten): L = 6, d = 512, 187 symbols; the Transformer has 19.0 million.

    An embedding of half the width; U_0; 2E + 2 matrices, two biases and alpha a layer, and a gate
    where there is a choice.
    """
    with torch.device("meta"):
        model = make_classifier(
            "transject", "--encoder-experts", str(experts), task=Task(187), sizes=[]
        )
    count = sum(p.numel() for p in model.encoder.parameters())
    gate = 512 if experts > 1 else 0
    layer = (2 * experts + 2) * 512**2 + 2 * 512 + 1 + gate
    assert count == exact == 187 * 256 + 512**2 + 6 * layer
    assert count == pytest.approx(paper, rel=0.01)
    sizes = (
        "--encoder-embed-dim 512 --encoder-ffn-embed-dim 2048 --encoder-attention-heads 8".split()
    )
    baseline = make_classifier("transformer_classifier", task=Task(187), sizes=sizes)
    count = sum(p.numel() for p in baseline.encoder.parameters())
    assert count == pytest.approx(19.0e6, rel=0.01)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize(
    "options, message",
    [
        ("embed-dim 15", "embed-dim 15: give a multiple of 2"),
        ("embed-dim 6", "embed-dim 6: give at least 8"),
        ("layers 0", "layers 0: give at least 1"),
        ("experts 0", "experts 0: give at least 1"),
    ],
)
def test_bad_options(side, options, message):
    options = f"--{side}-{options}".split()
    with pytest.raises(ValueError, match=f"--{side}-{message}"):
        if side == "encoder":
            make_classifier("transject", sizes=options)
        else:
            make_lm("transject_lm", *options)


@pytest.mark.parametrize("arch", CLASSIFIERS)
def test_one_token_and_none(arch):
    """A text of one token, and one of padding alone, have scores and gradients."""
    model = wake(make_classifier(arch))
    tokens = torch.full((3, 6), PAD)
    tokens[0, 0], tokens[1] = 7, 9
    for recorded in (False, True):
        with torch.set_grad_enabled(recorded):
            logits, extra = model(tokens, classification_head_name=HEAD)
            alone, _ = model(tokens[:1, :1], classification_head_name=HEAD)
        assert logits.isfinite().all()
        assert (logits[0] - alone[0]).abs().max() < 1e-5
    loss = logits.square().sum() + sum(v.sum() for v in extra["regularizers"].values())
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("arch", ["transject", "transject_lra", "transject_lm"])
def test_the_paper_s_loss_has_the_reconstruction(arch):
    """Of weight 1e-4; Random-TransJect has no eigenvalues to reconstruct."""
    models = (ARCH_MODEL_REGISTRY[name] for name in (arch, f"{arch}_random"))
    weights = [model.regularizer_weights for model in models]
    assert weights == [{"reconstruction": 1e-4}, {}]
