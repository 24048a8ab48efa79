"""The defaults of each architecture are its paper's.

Where a paper is silent, the source is the code that it was published with; all other defaults are
in the listing of the command line.
"""

import pytest
from fairseq.dataclass.configs import CommonConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import resolved
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

BIG = "macaron_transformer_wmt_en_de_big transformer_wmt_en_de_big_t2t_macaron"
IWSLT = "macaron_transformer_iwslt_de_en transformer_iwslt_de_en_macaron_v2"
BASE = "macaron_transformer macaron_transformer_wmt_en_de transformer_wmt_en_de_macaron_v2"
BERT = "macaron_bert macaron_bert_base"
VARIANTS = [
    ("fullff_1", "ffn_type=full *_blocks=1 *_depth=6"),
    ("fullff_2", "ffn_type=full *_blocks=2 *_depth=3"),
    ("randomff_1", "ffn_type=random *_blocks=1 *_depth=6"),
    ("randomff_2", "ffn_type=random *_blocks=2 *_depth=3"),
]
POST_NORM = " ".join(f"transevolve_{name}" for name, _ in VARIANTS)
PRE_NORM = " ".join(f"transevolve_{name}_prenorm" for name, _ in VARIANTS)
SMALL_POST_NORM = POST_NORM.replace("transevolve", "transevolve_classifier")
SMALL_PRE_NORM = PRE_NORM.replace("transevolve", "transevolve_classifier")
TRANSLATION = f"transevolve {POST_NORM} {PRE_NORM}"
SMALL = f"transevolve_classifier {SMALL_POST_NORM} {SMALL_PRE_NORM}"
SHORT, LONG = "transject transject_random", "transject_lra transject_lra_random"
PARITY = "node_transformer vanilla_transformer"
POST_NORM_CLASSIFIERS = (
    "transformer_classifier transformer_classifier_rezero transformer_classifier_orthogonal"
)
CLASSIFIERS = f"{POST_NORM_CLASSIFIERS} transformer_classifier_prenorm"
LANGUAGE_MODELS = "transformer_lm_rezero transformer_lm_orthogonal"
HEAD = "pooling=mean pooled_layer_norm=True classifier_hidden_layers=0"

# Architectures, their options, * for encoder and decoder; by where the options are from.
PRESETS = {
    "Lu et al. 2019, section 4.1; the inner width is twice the width, half of BERT's": [
        (BASE, "*_layers=6 *_embed_dim=512 *_attention_heads=8 *_ffn_embed_dim=1024"),
        (BIG, "*_layers=6 *_embed_dim=1024 *_attention_heads=16 *_ffn_embed_dim=2048"),
        (IWSLT, "*_layers=6 *_embed_dim=512 *_attention_heads=4"),
        (BERT, "encoder_layers=12 encoder_embed_dim=768 encoder_attention_heads=12"),
        (BERT, "encoder_ffn_embed_dim=1536"),
        ("macaron_classifier", "encoder_embed_dim=256 encoder_ffn_embed_dim=512"),
    ],
    "the code of Lu et al. 2019; examples/macaron/README.md, Decisions": [
        (f"{BASE} {BIG} {IWSLT}", "attention_dropout=0.1 activation_dropout=0.1"),
        (f"{BASE} {BIG} {IWSLT}", "*_normalize_before=True"),
        (IWSLT, "*_ffn_embed_dim=512"),
        (BERT, "activation_fn=gelu encoder_normalize_before=True encoder_learned_pos=True"),
        ("macaron_classifier", "encoder_normalize_before=True"),
    ],
    "Vaswani et al. 2017, Table 3": [
        (f"{BASE} {IWSLT}", "dropout=0.1"),
        (BIG, "dropout=0.3"),
        ("node_transformer_mt", "*_embed_dim=512 *_ffn_embed_dim=2048 *_attention_heads=8"),
        ("node_transformer_mt", "dropout=0.1 no_token_positional_embeddings=False"),
        ("transformer_prenorm", "*_layers=6 *_embed_dim=512 *_attention_heads=8 dropout=0.1"),
        ("transformer_prenorm", "*_ffn_embed_dim=2048"),
        (POST_NORM_CLASSIFIERS, "encoder_normalize_before=False"),
        (f"{CLASSIFIERS} macaron_classifier", "attention_dropout=0.0 activation_dropout=0.0"),
        (f"{CLASSIFIERS} macaron_classifier", "dropout=0.1"),
        (LANGUAGE_MODELS, "decoder_attention_heads=8 decoder_normalize_before=False"),
        (LANGUAGE_MODELS, "dropout=0.1 attention_dropout=0.0 activation_dropout=0.0"),
    ],
    "Devlin et al. 2019, appendix A.2, and its code": [
        (BERT, "dropout=0.1 attention_dropout=0.1 pooler_activation_fn=tanh"),
    ],
    "Dutta et al. 2021, section 7.1": [
        *(
            (f"{family}_{name} {family}_{name}_prenorm", options.replace("*", sides))
            for family, sides in (("transevolve", "*"), ("transevolve_classifier", "encoder"))
            for name, options in VARIANTS
        ),
        (TRANSLATION, "time_dim=512 *_embed_dim=512 *_attention_heads=8"),
        (SMALL, "time_dim=256 encoder_embed_dim=256 encoder_attention_heads=8"),
        (f"{CLASSIFIERS} macaron_classifier", "encoder_layers=6 encoder_attention_heads=8"),
        (CLASSIFIERS, "encoder_embed_dim=256"),
    ],
    "Dutta et al. 2021, Table 2: the variant of the highest BLEU": [
        ("transevolve", "ffn_type=full *_blocks=2 *_depth=3"),
        ("transevolve_classifier", "ffn_type=full encoder_blocks=2 encoder_depth=3"),
    ],
    "Dutta et al. 2021, Table 2: the parameters are those of one embedding of 32,000 symbols": [
        (f"{POST_NORM} {PRE_NORM}", "share_all_embeddings=True"),
    ],
    "the code of Dutta et al. 2021; README.md, Decisions": [
        (f"{TRANSLATION} {SMALL}", "dropout=0.1 attention_dropout=0.1 embedding_dropout=0.0"),
        (f"transevolve {POST_NORM}", "*_normalize_before=False"),
        (f"transevolve_classifier {SMALL_POST_NORM}", "encoder_normalize_before=False"),
    ],
    "their names": [
        (f"{PRE_NORM} transformer_prenorm", "*_normalize_before=True"),
        (f"{SMALL_PRE_NORM} transformer_classifier_prenorm", "encoder_normalize_before=True"),
    ],
    "Dutta et al. 2021, section 6: average pooling, normalization, a feed-forward layer": [
        (f"{SMALL} {CLASSIFIERS} macaron_classifier", HEAD),
    ],
    "Sengupta et al. 2023, appendix B.1": [
        (SHORT, "encoder_layers=6 encoder_experts=4 encoder_embed_dim=512 pooling=mean"),
        (LONG, "encoder_layers=2 encoder_experts=4 encoder_embed_dim=512 pooling=max"),
        (f"{SHORT} {LONG}", "pooled_layer_norm=False classifier_hidden_layers=0"),
        ("transject_lm transject_lm_random", "decoder_layers=6 decoder_embed_dim=512"),
        ("transject_lm transject_lm_random", "decoder_experts=4"),
        (LANGUAGE_MODELS, "decoder_layers=6 decoder_embed_dim=512 decoder_ffn_embed_dim=2048"),
    ],
    "Sengupta et al. 2023, section 3.3, ReZero: zero at the start, as a sigmoid is not": [
        (f"{SHORT} {LONG} transject_lm transject_lm_random", "residual_gate=tanh"),
    ],
    "Baier-Reinio and De Sterck 2020, section 3": [
        (PARITY, "encoder_ffn_embed_dim=8 dropout=0.0 encoder_normalize_before=False"),
        ("node_transformer node_transformer_mt", "ode_final_time=1.0 ode_method=dopri5"),
        ("node_transformer node_transformer_mt", "adjoint=False"),
        ("node_transformer", "ode_rtol=1e-05 ode_atol=1e-05 adaptivity=batch"),
        ("vanilla_transformer", "attention_dropout=0.0 activation_dropout=0.0"),
    ],
    "Baier-Reinio and De Sterck 2020, section 4: no positions; the state of the SOS token": [
        (PARITY, "encoder_embed_dim=8 encoder_layers=2 no_token_positional_embeddings=True"),
        (PARITY, "pooling=first classifier_hidden_layers=2 pooled_layer_norm=False"),
        ("node_transformer", "vector_field=composed skip_connection=False"),
        ("node_transformer", "time_dependent_attention=False"),
    ],
    "Baier-Reinio and De Sterck 2020, section 6, Eq. 6: the norm of X'": [
        ("node_transformer node_transformer_mt", "arclength_order=1"),
    ],
}
OURS = sorted(
    arch
    for arch, model in ARCH_MODEL_REGISTRY.items()
    if model.__module__.startswith("fairseq_odeformers.")
)
ROWS = [
    (arch, options, source)
    for source, rows in PRESETS.items()
    for archs, options in rows
    for arch in archs.split()
]


@pytest.mark.parametrize("arch", sorted({arch for arch, *_ in ROWS}))
def test_defaults(arch):
    config = resolved(arch)
    for name, options, source in ROWS:
        if name == arch:
            stated = dict(word.split("=") for word in both_sides(options))
            assert {option: str(config[option]) for option in stated} == stated, source


def both_sides(options):
    """Each option on its own, and those of both sides twice."""
    for word in options.split():
        yield from dict.fromkeys(word.replace("*", side) for side in ("encoder", "decoder"))


@pytest.mark.parametrize("arch", OURS)
def test_hydra_finds_the_same_defaults(arch):
    """An architecture is one of Hydra's group of models."""
    model = ConfigStore.instance().load(f"model/{arch}.yaml").node
    config = OmegaConf.create({"model": model, "common": CommonConfig()})
    add_defaults(config)
    expected = OmegaConf.to_container(resolved(arch), enum_to_str=True)
    found = OmegaConf.to_container(config, enum_to_str=True)["model"]
    assert found == {**expected, "_name": arch}
