"""The N-ODE Transformer as fairseq models: sizes, what is logged, errors."""

import pytest
import torch
from helpers import call, make_any, make_classifier, make_model, scores, small, source_batch
from omegaconf import OmegaConf

from fairseq_odeformers.criterions.regularizers import RegularizerConfig, Regularizers

NODE, MT = "node_transformer", "node_transformer_mt"


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("dim, layers", [(4, 1), (8, 2), (10, 4)])
def test_parameters_equal_the_vanilla_transformers(dim, layers):
    """At the sizes of Table 1 a block also has c for both maps of the FFN, or for all six maps."""
    size = ["--encoder-embed-dim", str(dim), "--encoder-layers", str(layers)]
    vanilla = make_classifier("vanilla_transformer", sizes=size)
    node = make_classifier(NODE, sizes=size)
    timed = make_classifier(NODE, "--time-dependent-attention", sizes=size)
    assert count(node) - count(vanilla) == layers * 2 * dim
    assert count(timed) - count(vanilla) == layers * 6 * dim
    field = node.encoder.layers[0].field
    assert field.self_attn.num_heads == vanilla.encoder.layers[0].self_attn.num_heads == dim // 2


def test_one_euler_step_of_the_residual_field_is_a_vanilla_layer():
    """From t = 0, where c has no effect, the step is a layer (section 7, Eqs. 1 and 9)."""
    vanilla = make_classifier("vanilla_transformer", sizes=[]).eval()
    euler = "--vector-field residual --ode-method euler --ode-steps 1".split()
    node = make_classifier(NODE, *euler, sizes=[]).eval()
    state = vanilla.state_dict()
    for name in list(state):
        for old, new in (("self_attn.", "field.self_attn."), ("_proj", ""), ("fc", "field.fc")):
            if name.startswith("encoder.layers."):
                state[name.replace(old, new, 1)] = state.pop(name)
                name = name.replace(old, new, 1)
    missing = node.load_state_dict(state, strict=False)
    assert {name.split(".")[-1] for name in missing.missing_keys} == {"time"}
    tokens, _ = source_batch()
    assert (scores(node, tokens) - scores(vanilla, tokens)).abs().max() < 1e-6


def test_both_sides_of_a_translation_are_regularized():
    model = make_model(MT)
    source, lengths = source_batch()
    _, extra = model(source, lengths, torch.randint(4, 50, (3, 7)))
    encoder_out = model.encoder(source, lengths)
    assert (extra["regularizers"]["arclength"] > encoder_out["regularizers"]["arclength"]).all()
    assert extra["statistics"]["decoder_nfe_2"].tolist() == [4.0] * 3
    assert extra["statistics"]["encoder_nfe_2"].tolist() == [8.0] * 3
    model.decoder.eval()  # as if frozen
    _, extra = model(source, lengths, torch.randint(4, 50, (3, 7)))
    assert (extra["regularizers"]["arclength"] > 0).all()
    _, extra = model.eval()(source, lengths, torch.randint(4, 50, (3, 7)))
    assert extra["regularizers"] == {}


@pytest.mark.parametrize("retained", [False, True])
def test_dropout_is_retained_in_generation_on_request(retained):
    """The field's dropout is retained in encoder and decoder; their embeddings have none here."""
    model = make_model(MT, "--dropout", "0.5").eval()
    for side in (model.encoder, model.decoder):
        side.dropout_module.p = 0
    generation = {"retain_dropout": retained, "retain_dropout_modules": None}
    model.prepare_for_inference_(OmegaConf.create({"generation": generation}))
    source, lengths = source_batch()
    encoded, again = model.encoder(source, lengths), model.encoder(source, lengths)
    states = [out["encoder_out"][0] for out in (encoded, again)]
    decoded = [model.decoder(source, encoded)[0] for _ in range(2)]
    assert torch.equal(*states) is torch.equal(*decoded) is not retained


@pytest.mark.parametrize("arch", [NODE, MT])
def test_a_share_of_unfinished_sequences_is_logged(arch):
    options = "--ode-method dopri5 --ode-rtol 1e-9 --ode-max-steps 2 --ode-on-max-steps stop"
    model = make_any(arch, *options.split(), "--adaptivity", "sequence", sizes=small(arch))
    with torch.no_grad():
        _, extra = model(**call(model, source_batch()[0], torch.randint(4, 50, (3, 7))))
    _, sums = Regularizers(RegularizerConfig()).weighted_sum(extra, model)
    assert {f"_mean_encoder_unfinished_{index}" for index in (1, 2)} <= sums.keys()
    assert sums["_mean_encoder_unfinished_1"] == 3


def test_errors_name_block_batch_step_and_remedy():
    model = make_classifier(NODE, "--ode-max-steps", "1", "--adaptivity", "batch")
    where = r"encoder block 1, a batch of 3 x 9 tokens, step 2 at t = 0\.\d+ of 1"
    message = f"^{where}: exceeded the limit of 1 steps; raise --ode-max-steps "
    with pytest.raises(RuntimeError, match=message):
        scores(model, source_batch()[0])
