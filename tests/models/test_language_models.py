"""Every architecture for language modelling: causality, incremental decoding, gradients."""

import pytest
import torch
from fairseq.search import Sampling
from fairseq.sequence_generator import SequenceGenerator
from helpers import EOS, PAD, LanguageModelling, assert_causal, make_lm, wake

ARCHITECTURES = [
    *("macaron_transformer_lm", "transformer_lm_rezero", "transformer_lm_orthogonal"),
    *("transject_lm", "transject_lm_random"),
]


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    return wake(make_lm(request.param), std=0.5)


def test_causal(model):
    model.eval()
    assert_causal(lambda tokens: model(tokens)[0])


def test_incremental_equals_full_decoding(model):
    model.eval()
    tokens, state = torch.randint(4, 50, (3, 7)), {}
    full, _ = model(tokens)
    for length in range(1, 8):
        step, _ = model(tokens[:, :length], incremental_state=state)
        assert (step[:, 0] - full[:, length - 1]).abs().max() < 1e-5


def test_incremental_state_follows_the_beam(model):
    """Reordered half-way, the rest is decoded as if the texts had changed places."""
    model.eval()
    tokens, state, order = torch.randint(4, 50, (3, 7)), {}, torch.tensor([2, 0, 0])
    for length in range(1, 5):
        model(tokens[:, :length], incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, order)
    step, _ = model(tokens[order, :5], incremental_state=state)
    full, _ = model(tokens[order, :5])
    assert (step[:, 0] - full[:, 4]).abs().max() < 1e-5


@pytest.mark.parametrize("arch", ["transject_lm", "transject_lm_random"])
def test_state_of_transject_has_one_size(arch):
    """A sum, and a maximum a layer and expert, each of the width 16, whatever the length."""
    model, sizes = make_lm(arch).eval(), []
    tokens, state = torch.randint(4, 50, (3, 12)), {}
    for length in range(1, 13):
        model(tokens[:, :length], incremental_state=state)
        sizes.append(sum(v.numel() for saved in state.values() for v in saved.values()))
    maxima = 3 * 6 * 2 * 16
    assert set(sizes) == {maxima + (3 * 16 if arch == "transject_lm" else 0)}


@pytest.mark.parametrize("sampling", [False, True])
def test_generation(model, sampling):
    """By fairseq's generator: a text after each prefix, as likely as full decoding finds it."""
    dictionary = LanguageModelling().target_dictionary
    generator = SequenceGenerator(
        [model],
        dictionary,
        beam_size=2,
        max_len_b=9,
        search_strategy=Sampling(dictionary, sampling_topk=5) if sampling else None,
    )
    prefix = torch.tensor([[EOS, 7, 8, 9], [EOS, 11, PAD, PAD]])
    sample = {"net_input": {"src_tokens": prefix, "src_lengths": torch.tensor([4, 2])}}
    found = generator.generate([model], sample, prefix_tokens=prefix[:, 1:])
    for row, texts in zip(prefix, found):
        real = row[row != PAD][1:]
        for text in texts:
            tokens = text["tokens"]
            assert torch.equal(tokens[: len(real)], real)
            before = torch.cat([torch.tensor([EOS]), tokens[:-1]]).unsqueeze(0)
            lprobs = model.eval()(before)[0].log_softmax(-1)[0]
            scores = lprobs.gather(1, tokens.unsqueeze(1)).squeeze(1)
            assert (scores - text["positional_scores"])[len(real) :].abs().max() < 1e-4


def test_half_precision(model):
    model.eval().bfloat16()
    state, tokens = {}, torch.randint(4, 50, (3, 7))
    assert model(tokens)[0].isfinite().all()
    for length in (1, 2):
        assert model(tokens[:, :length], incremental_state=state)[0].isfinite().all()


@pytest.mark.parametrize("mixed", [False, True])
def test_every_parameter_gets_a_gradient(model, mixed):
    """A step of training, in automatic mixed precision as well."""
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        loss = model(torch.randint(4, 50, (2, 7)))[0].float().square().sum()
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name


@pytest.mark.parametrize("arch", ["transject_lm", "transject_lm_random"])
def test_fewer_symbols_come_out_than_go_in(arch):
    """As with fairseq's --output-dictionary-size."""
    task = LanguageModelling(words=50, target_words=20)
    model = make_lm(arch, task=task)
    assert model(torch.randint(30, 50, (2, 7)))[0].shape == (2, 7, 20)


@pytest.mark.parametrize("arch", ["transformer_lm_rezero", "macaron_transformer_lm"])
def test_bad_options(arch):
    with pytest.raises(ValueError, match="--decoder-attention-heads 3: give a divisor"):
        make_lm(arch, "--decoder-attention-heads", "3")
