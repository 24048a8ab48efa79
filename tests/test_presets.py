"""The defaults of each architecture are its paper's.

Where a paper is silent, the source is its published code; all other defaults are in the listing of
the command line.
"""

import re

import pytest
from fairseq.dataclass.configs import CommonConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import resolved
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

OURS = sorted(
    arch
    for arch, model in ARCH_MODEL_REGISTRY.items()
    if model.__module__.startswith("fairseq_odeformers.")
)
# Patterns of architectures' names.
MACARON = "macaron_transformer(?!_lm).*|transformer_.*_macaron.*"
BASE, BIG = "macaron_transformer|(?!ode|pc).*wmt_en_de(_macaron_v2)?", "(?!ode|pc).*_big.*"
IWSLT, BERT = "(?!pc).*iwslt.*", "macaron_bert.*"
CLASSIFIERS = "transformer_classifier(?!_modern|_lra).*"
LANGUAGE_MODELS, MODERN = "transformer_lm_(?!modern).*", "transformer(_classifier|_lm)?_modern"
TRANSLATION, SMALL = "transevolve(?!_classifier).*", "transevolve_classifier.*"
TRANSJECT, LRA = "transject.*", "transject_lra.*"
SKYFORMER = "transformer_classifier_lra"
PARITY = "node_transformer|vanilla_transformer"
ODE, ODE_BASE = "ode_transformer.*", "ode_transformer(_wmt_en_de(_dense)?(_rk4)?)?"
ODE_BIG = "ode_transformer_wmt_en_de(_dense)?_big.*"

# Architectures and their options, * for encoder and decoder; by where the options are from.
PRESETS = {
    "Lu et al. 2019, section 4.1; the inner width is twice the width, half of BERT's": [
        (BASE, "*_layers=6 *_embed_dim=512 *_attention_heads=8 *_ffn_embed_dim=1024"),
        (BIG, "*_layers=6 *_embed_dim=1024 *_attention_heads=16 *_ffn_embed_dim=2048"),
        (IWSLT, "*_layers=6 *_embed_dim=512 *_attention_heads=4"),
        (BERT, "*_layers=12 *_embed_dim=768 *_attention_heads=12 *_ffn_embed_dim=1536"),
        ("macaron_classifier", "*_embed_dim=256 *_ffn_embed_dim=512"),
    ],
    "the code of Li et al. 2022; docs/papers/ode_transformer.md": [
        (ODE_BASE, "*_layers=6 *_embed_dim=512 *_attention_heads=8 *_ffn_embed_dim=2048"),
        (ODE_BIG, "*_layers=6 *_embed_dim=1024 *_attention_heads=16 *_ffn_embed_dim=4096"),
        (ODE_BASE, "dropout=0.1"),
        (ODE_BIG, "dropout=0.3"),
        (f"(?!.*classifier){ODE}", "attention_dropout=0.1 activation_dropout=0.1"),
        (ODE, "*_normalize_before=True rk_coefficients=None"),
        (f"(?!.*rk4){ODE}", "rk_order=2"),
        ("ode_.*_rk4", "rk_order=4"),
        ("ode_transformer_wmt.*", "rk_field=released"),
        ("ode_transformer(_lm|_classifier)?", "rk_field=textbook"),
        ("ode_.*_dense.*", "dense_history=True"),
        ("ode_(?!.*_dense).*", "dense_history=False"),
    ],
    "the code of Lu et al. 2019; docs/papers/macaron.md": [
        (MACARON, "attention_dropout=0.1 activation_dropout=0.1"),
        (f"{MACARON}|macaron_classifier", "*_normalize_before=True"),
        ("(?!pc).*iwslt.*(?<!en_v2)", "*_ffn_embed_dim=512"),
        ("transformer_iwslt_de_en_v2", "*_ffn_embed_dim=1024"),
        ("transformer_wmt_en_de_v2", "*_ffn_embed_dim=2048 *_attention_heads=8 *_embed_dim=512"),
        ("transformer_.*_en_(de_)?v2", "*_layers=6 *_normalize_before=True"),
        ("transformer_.*_en_(de_)?v2", "attention_dropout=0.1 activation_dropout=0.1 dropout=0.1"),
        (BERT, "activation_fn=gelu *_normalize_before=True encoder_learned_pos=True"),
    ],
    "the code of Gai et al. 2026; docs/papers/yuriiformer.md": [
        ("(yurii|tmm)former.*", "*_normalize_before=True"),
        ("yuriiformer.*", "nu=fixed"),
        ("tmmformer.*", "nu=learned"),
        ("(yurii|tmm)former_lm_gpt2", "*_layers=12 *_embed_dim=768 *_attention_heads=12"),
        ("(yurii|tmm)former_lm_gpt2", "*_ffn_embed_dim=3072 activation_fn=gelu dropout=0.0"),
        ("(yurii|tmm)former_lm_gpt2", "*_learned_pos=True no_scale_embedding=True"),
        ("(yurii|tmm)former_lm_gpt2", "share_decoder_input_output_embed=True velocity=embedding"),
        ("(?!.*gpt2)(yurii|tmm)former.*", "velocity=zero"),
    ],
    "the code of Li et al. 2024; docs/papers/pcformer.md": [
        ("pcformer(_wmt_en_de)?", "*_layers=6 *_embed_dim=512 *_attention_heads=8 dropout=0.1"),
        ("pcformer(_wmt_en_de)?", "*_ffn_embed_dim=2048"),
        ("pcformer_wmt_en_de_big", "*_embed_dim=1024 *_attention_heads=16 *_ffn_embed_dim=4096"),
        ("pcformer_iwslt_de_en", "*_embed_dim=512 *_attention_heads=4 *_ffn_embed_dim=1024"),
        ("pcformer_(wmt_en_de_big|iwslt_de_en)", "*_layers=6 dropout=0.3"),
        ("pcformer_wmt.*", "rk_order=4 rk_field=released"),
        ("pcformer_iwslt_de_en", "rk_order=2 rk_field=released"),
        ("pcformer(_lm|_classifier)?", "rk_order=2 rk_field=textbook"),
        ("(?!.*(classifier|released))pcformer.*", "attention_dropout=0.1 activation_dropout=0.1"),
        ("pcformer.*", "*_normalize_before=True rk_norm=False alpha_per_layer=False"),
        ("pcformer(?!_lm_released).*", "rk_norm_slopes=False"),
        ("pcformer_lm_released", "rk_order=2 rk_field=released rk_norm_slopes=True"),
        ("pcformer_lm_released", "dropout=0.0 attention_dropout=0.0 activation_dropout=0.0"),
    ],
    "the code of Kan et al. 2025; docs/papers/ot_transformer.md": [
        ("ot_.*", "ode_field=released ode_method=euler ode_steps=5 *_normalize_before=True"),
        ("ot_transformer(_lm|_classifier)?", "layer_norm=True final_norm=field"),
        ("ot_.*_shakespeare", "layer_norm=False final_norm=none activation_fn=gelu"),
        ("ot_.*_shakespeare", "*_layers=5 *_embed_dim=320 *_attention_heads=5"),
        ("ot_.*_shakespeare", "*_ffn_embed_dim=1280 dropout=0.2 attention_dropout=0.2"),
        ("ot_.*_shakespeare", "share_decoder_input_output_embed=True no_scale_embedding=True"),
    ],
    "this project; docs/papers/diffeq_transformer.md": [
        ("diffeq_transformer(?!.*gpt2).*", "*_steps=6 time_embed_dim=None time_frequencies=4"),
        ("diffeq_transformer(?!.*gpt2).*", "time_features=harmonic initialization=transformer"),
        ("diffeq_transformer(?!.*gpt2).*", "attention_dropout=0.1"),
    ],
    "the code of Tong et al. 2025": [
        ("diffeq_transformer.*", "dropout=0.1 activation_dropout=0.0"),
        ("diffeq_.*_gpt2.*", "time_features=released time_frequencies=128 attention_dropout=0.0"),
        ("diffeq_.*_gpt2.*", "initialization=released activation_fn=gelu_accurate"),
        ("diffeq_.*_gpt2.*", "*_learned_pos=True share_decoder_input_output_embed=True"),
        ("diffeq_.*_gpt2_small", "*_steps=12 *_embed_dim=768 *_attention_heads=12"),
        ("diffeq_.*_gpt2_small", "*_ffn_embed_dim=3072 time_embed_dim=20"),
        ("diffeq_.*_gpt2_medium", "*_steps=24 *_embed_dim=1024 *_attention_heads=16"),
        ("diffeq_.*_gpt2_medium", "*_ffn_embed_dim=4096 time_embed_dim=96"),
        ("diffeq_.*_gpt2_large", "*_steps=36 *_embed_dim=1280 *_attention_heads=20"),
        ("diffeq_.*_gpt2_large", "*_ffn_embed_dim=5120 time_embed_dim=96"),
    ],
    "Vaswani et al. 2017, Table 3": [
        (f"{BASE}|{IWSLT}|transformer_prenorm|node_transformer_(mt|lm)", "dropout=0.1"),
        (BIG, "dropout=0.3"),
        ("node_transformer_(mt|lm)|transformer_prenorm", "*_embed_dim=512 *_attention_heads=8"),
        ("node_transformer_(mt|lm)|transformer_prenorm", "*_ffn_embed_dim=2048"),
        ("transformer_prenorm", "*_layers=6"),
        ("diffeq_transformer(_lm)?", "*_embed_dim=512 *_attention_heads=8 *_ffn_embed_dim=2048"),
        (f"{CLASSIFIERS}|macaron_classifier|{LANGUAGE_MODELS}", "dropout=0.1"),
        (f"{CLASSIFIERS}|{LANGUAGE_MODELS}", "attention_dropout=0.0 activation_dropout=0.0"),
        (f"({CLASSIFIERS}|{LANGUAGE_MODELS})(?<!prenorm)", "*_normalize_before=False"),
        (f"{LANGUAGE_MODELS}|{MODERN}", "*_attention_heads=8"),
        ("transformer(_lm)?_modern", "*_layers=6 *_embed_dim=512 dropout=0.1"),
    ],
    "Devlin et al. 2019, appendix A.2, and its code": [
        (BERT, "dropout=0.1 attention_dropout=0.1 pooler_activation_fn=tanh")
    ],
    "Dutta et al. 2021, section 7.1": [
        ("transevolve.*_1(_prenorm)?", "*_blocks=1 *_depth=6"),
        ("transevolve.*_2(_prenorm)?", "*_blocks=2 *_depth=3"),
        (".*_fullff_.*", "ffn_type=full"),
        (".*_randomff_.*", "ffn_type=random"),
        (TRANSLATION, "time_dim=512 *_embed_dim=512 *_attention_heads=8"),
        (SMALL, "time_dim=256 *_embed_dim=256 *_attention_heads=8"),
        (f"{CLASSIFIERS}|macaron_classifier", "*_layers=6 *_attention_heads=8 *_embed_dim=256"),
        ("transformer_classifier_modern", "*_layers=6 *_embed_dim=256 dropout=0.1 pooling=mean"),
    ],
    "Dutta et al. 2021, Table 2: the variant of the highest BLEU": [
        ("transevolve|transevolve_classifier", "ffn_type=full *_blocks=2 *_depth=3")
    ],
    "Dutta et al. 2021, Table 2: the parameters are those of one embedding of 32,000 symbols": [
        ("transevolve_(full|random)ff_.*", "share_all_embeddings=True")
    ],
    "the code of Dutta et al. 2021; docs/papers/transevolve.md": [
        ("transevolve.*", "dropout=0.1 attention_dropout=0.1 embedding_dropout=0.0"),
        ("transevolve.*(?<!prenorm)", "*_normalize_before=False"),
    ],
    "their names": [(".*_prenorm", "*_normalize_before=True")],
    "Dutta et al. 2021, section 6: average pooling, normalization, a feed-forward layer": [
        (
            f"{SMALL}|{CLASSIFIERS}|macaron_classifier",
            "pooling=mean pooled_layer_norm=True classifier_hidden_layers=0",
        )
    ],
    "Sengupta et al. 2023, appendix B.1; section 3.3, ReZero: zero at the start": [
        (TRANSJECT, "*_experts=4 *_embed_dim=512 residual_gate=tanh"),
        (f"(?!{LRA}){TRANSJECT}|{LANGUAGE_MODELS}", "*_layers=6"),
        (LRA, "*_layers=2 pooling=max"),
        ("transject|transject_random", "pooling=mean"),
        (f"(?!.*_lm){TRANSJECT}", "pooled_layer_norm=False classifier_hidden_layers=0"),
        (LANGUAGE_MODELS, "*_embed_dim=512 *_ffn_embed_dim=2048"),
    ],
    "Touvron et al. 2023, section 2.2, and Llama's code; docs/papers/baselines.md": [
        (MODERN, "*_ffn_embed_dim=None attention_dropout=0.0 activation_dropout=0.0"),
    ],
    "the code of Chen et al. 2021 (Skyformer)": [
        (SKYFORMER, "*_layers=2 *_embed_dim=64 *_ffn_embed_dim=128 *_attention_heads=2"),
        (SKYFORMER, "*_normalize_before=True *_learned_pos=True activation_fn=gelu"),
        (SKYFORMER, "dropout=0.1 attention_dropout=0.1 activation_dropout=0.1 pooling=mean"),
        (SKYFORMER, "pooled_layer_norm=False classifier_hidden_layers=1"),
    ],
    "Baier-Reinio and De Sterck 2020, section 3": [
        (PARITY, "*_ffn_embed_dim=8 dropout=0.0 *_normalize_before=False"),
        ("node_transformer.*", "ode_final_time=1.0"),
        ("node_transformer(_mt)?", "ode_method=dopri5 adjoint=False"),
        ("node_transformer", "ode_rtol=1e-05 ode_atol=1e-05 adaptivity=batch"),
        ("vanilla_transformer", "attention_dropout=0.0 activation_dropout=0.0"),
    ],
    "Baier-Reinio and De Sterck 2020, section 4: no positions; the state of the SOS token": [
        (PARITY, "*_embed_dim=8 *_layers=2 no_token_positional_embeddings=True"),
        (PARITY, "pooling=first classifier_hidden_layers=2 pooled_layer_norm=False"),
        ("node_transformer", "vector_field=composed skip_connection=False"),
        ("node_transformer", "time_dependent_attention=False"),
    ],
    "Baier-Reinio and De Sterck 2020, section 6, Eq. 6: the norm of X'": [
        ("node_transformer.*", "arclength_order=1")
    ],
}


@pytest.mark.parametrize(
    "source, archs, options", [(source, *row) for source, rows in PRESETS.items() for row in rows]
)
def test_defaults_are_the_papers(source, archs, options):
    """An option of both sides is compared on the sides that an architecture has."""
    matching = [arch for arch in OURS if re.fullmatch(archs, arch)]
    assert matching
    for arch in matching:
        config = resolved(arch)
        for option, value in (word.split("=") for word in options.split()):
            sides = {option.replace("*", side) for side in ("encoder", "decoder")}
            values = [str(config[name]) for name in sides if name in config]
            assert set(values) == {value}, (arch, option)


@pytest.mark.parametrize("arch", OURS)
def test_hydra_finds_the_same_defaults(arch):
    """Each architecture is in Hydra's group of models."""
    model = ConfigStore.instance().load(f"model/{arch}.yaml").node
    config = OmegaConf.create({"model": model, "common": CommonConfig()})
    add_defaults(config)
    expected = OmegaConf.to_container(resolved(arch), enum_to_str=True)
    actual = OmegaConf.to_container(config, enum_to_str=True)["model"]
    assert actual == {**expected, "_name": arch}
