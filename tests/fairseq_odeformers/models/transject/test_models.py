"""TransJect's models: distances, regulariser and saved state."""

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import HEAD, LanguageModelling, make_classifier, make_model

CLASSIFIERS = ["transject", "transject_random"]


def wake(model):
    """Set residual weights and gates to values that they may have after training."""
    torch.manual_seed(2)
    for name, parameter in model.named_parameters():
        if name.endswith(("residual_weight", "gate.weight")):
            torch.nn.init.normal_(parameter, std=2.0)
    return model


@pytest.mark.parametrize("arch", CLASSIFIERS)
@pytest.mark.parametrize("lr", [0.0, 3e-2])
def test_distances_stay_within_the_bound(arch, lr):
    """The factor of two tokens' distance is between (1 - 1/L)^2L and (1 + 1/L)^2L.

    The slope of ELU is at most 1, U and V keep distances, and sigma and alpha are at most 1, so
    that an expert adds at most 1/L of a distance. The paper's bound has 3/L.
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


@pytest.mark.parametrize("arch", ["transject", "transject_lra", "transject_lm"])
def test_the_reconstruction_has_the_papers_weight(arch):
    """TransJect's reconstruction has weight 1e-4; Random-TransJect has no reconstruction."""
    models = (ARCH_MODEL_REGISTRY[name] for name in (arch, f"{arch}_random"))
    weights = [model.regularizer_weights for model in models]
    assert weights == [{"reconstruction": 1e-4}, {}]


@pytest.mark.parametrize("arch", ["transject_lm", "transject_lm_random"])
def test_decoding_state_has_constant_size(arch):
    """The state is a sum, and a maximum per layer and expert, each of the width 16 for any length.

    There may be fewer output than input symbols, as with fairseq's --output-dictionary-size.
    """
    model, sizes = make_model(arch, task=LanguageModelling(words=50, target_words=20)).eval(), set()
    tokens, state = torch.randint(4, 50, (3, 12)), {}
    for length in range(1, 13):
        step, _ = model(tokens[:, :length], incremental_state=state)
        assert step.shape == (3, 1, 20)
        sizes.add(sum(v.numel() for saved in state.values() for v in saved.values()))
    maxima = 3 * 2 * 2 * 16
    assert sizes == {maxima + (3 * 16 if arch == "transject_lm" else 0)}


@pytest.mark.parametrize("arch", CLASSIFIERS)
def test_alpha_and_the_mean_of_sigma_are_logged(arch):
    """Each text has a value, and the mean of sigma is 1 only if all eigenvalues are equal."""
    model = wake(make_classifier(arch, "--encoder-layers", "3"))
    _, extra = model(torch.randint(4, 50, (2, 5)), classification_head_name=HEAD)
    alphas = [
        weight.tanh().item() for name, weight in model.named_parameters() if "residual" in name
    ]
    logged = extra["statistics"]
    assert [logged[f"encoder_alpha_{n}"].tolist() for n in (1, 2, 3)] == [[a] * 2 for a in alphas]
    assert all(1 / 16 < mean < 1 for mean in logged["encoder_sigma"].tolist())
