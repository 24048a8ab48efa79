"""The registered models: TransEvolve (Dutta et al. 2021) translator, classifier, language model."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from fairseq.utils import get_available_activation_fns
from omegaconf import II

from fairseq_odeformers.models.common.language_model import DecoderOnlyConfig, DecoderOnlyModel
from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.models.common.sequence_classifier import (
    SequenceClassifier,
    SequenceClassifierConfig,
)
from fairseq_odeformers.models.common.translation import TranslationConfig, TranslationModel
from fairseq_odeformers.options import SIDES, option
from fairseq_odeformers.registry import register_preset

from .spec import BACKENDS, INITIALIZATIONS
from .stacks import TransEvolveCausalDecoder, TransEvolveDecoder, TransEvolveEncoder

NORMALIZE = (
    "apply LayerNorm before the queries and keys of each {} block and after the last block, "
    "instead of after each block"
)


def time_dim_option(side: str) -> Any:
    """Declare ``--time-dim``, the width d' of both sides; by default, the width of *side*.

    It must be a multiple of the number of heads on each side of the model.
    """
    return option(
        II(f"model.{side}_embed_dim"),
        "width d' of the time map",
        at_least=2,
        multiple_of=(2, "encoder_attention_heads", "decoder_attention_heads"),
    )


@dataclass
class TransEvolveBlockConfig(FairseqDataclass):
    """Options of the blocks on both sides; :class:`.BlockSpec` passes them to the layers."""

    ffn_type: str = option(
        "full",
        "feed-forward layers: full, as in a Transformer, or random, with fixed random rotations",
        choices=("full", "random"),
    )
    attention_backend: str = option(
        "auto",
        "implementation of attention, with the same results: direct, factored, fused, or "
        "auto (direct up to 32 tokens; beyond, factored on a CPU up to 4 GiB, else fused)",
        choices=BACKENDS,
    )
    initialization: str = option(
        "auto",
        "initial weights of output projections and feed-forward layers: glorot, as in the authors' "
        "code; transformer, as in fairseq's Transformer; or auto, transformer if LayerNorm comes "
        "before the blocks, else glorot",
        choices=INITIALIZATIONS,
    )
    dropout: float = option(0.1, "dropout probability of residual branches")
    embedding_dropout: float = option(0.0, "dropout probability of embeddings")
    attention_dropout: float = option(0.1, "dropout probability of queries and keys")
    attention_weights_dropout: float = option(
        0.0, "dropout probability of attention weights; training then uses the fused form"
    )
    activation_dropout: float = option(
        0.0, "dropout probability after the activation function of feed-forward layers"
    )
    activation_fn: str = option(
        "relu",
        "activation function of feed-forward layers",
        choices=tuple(get_available_activation_fns()),
    )
    self_attention_value_projection: bool = option(
        False, "apply a linear map to the values of the self-attention at each depth"
    )
    checkpoint_activations: bool = option(
        False, "recompute the activations of a block in the backward pass to save memory"
    )


@dataclass
class TransEvolveEncoderConfig(TransEvolveBlockConfig):
    """Options of the encoder; the defaults are the paper's base model, fullFF-2."""

    encoder_embed_dim: int = option(512, "encoder width")
    encoder_ffn_embed_dim: int = option(2048, "inner width of the encoder's FFN")
    encoder_attention_heads: int = option(8, "number of attention heads in the encoder")
    encoder_blocks: int = option(
        2, "number of encoder blocks; each computes its attention scores once"
    )
    encoder_depth: int = option(3, "depth L of an encoder block, its number of layers")
    time_dim: int = time_dim_option("encoder")
    encoder_normalize_before: bool = option(False, NORMALIZE.format("encoder"))


@dataclass
class TransEvolveConfig(TranslationConfig, TransEvolveEncoderConfig):
    """Options of encoder and decoder; both have the same width and share ``--time-dim``."""

    decoder_blocks: int = option(II("model.encoder_blocks"), "decoder blocks")
    decoder_depth: int = option(
        II("model.encoder_depth"), "depth L of a decoder block, its number of layers"
    )
    decoder_normalize_before: bool = option(False, NORMALIZE.format("decoder"))
    cross_attention_value_norm: bool = option(
        False, "apply LayerNorm to the values of the cross-attention at each depth"
    )
    cross_attention_value_projection: bool = option(
        False, "apply a linear map to the values of the cross-attention at each depth"
    )


class BlockSizes(BaseModel):
    """Mixin for the models: for equal sizes, a block of depth L counts as L layers."""

    @classmethod
    def limitation(cls, options: Mapping[str, Any]) -> str:
        """Extend :meth:`.BaseModel.limitation`: scores evolve from the second depth of a block."""
        depths = {f"{side}-depth": options.get(f"{side}-depth") for side in SIDES}
        if single := [name for name, depth in depths.items() if str(depth) == "1"]:
            given = " and ".join(f"--{name} 1" for name in single)
            return f"Blocks of a single layer do not evolve scores ({given}; use more layers)"
        return super().limitation(options)

    @classmethod
    def side_sizes(cls, sizes: Mapping[str, int], options: Mapping[str, Any]) -> dict[str, int]:
        """Extend :meth:`.BaseModel.side_sizes`: the layers become the depth of the blocks.

        Raises:
            ValueError: the number of layers is not a multiple of the number of blocks.
        """
        values = super().side_sizes(sizes, options)
        blocks = str(options.get("blocks"))
        blocks = int(blocks) if blocks.isdigit() else 0  # the decoder's may be an interpolation
        if "layers" in sizes and blocks:
            if sizes["layers"] % blocks:
                raise ValueError(
                    f"--layers {sizes['layers']}: the architecture has {blocks} blocks; give a "
                    "multiple"
                )
            values["depth"] = sizes["layers"] // blocks
        return values


@register_model("transevolve", dataclass=TransEvolveConfig)
class TransEvolveModel(BlockSizes, TranslationModel):
    """Encoder-decoder TransEvolve: fairseq's Transformer with blocks in place of layers.

    Everything around the blocks (embeddings, sinusoidal positions, output projection, the interface
    of training and generation) is fairseq's. ``--arch transevolve`` is the base model, with free
    choice of its options. Four architectures, such as ``transevolve_fullff_2``, are the paper's
    variants, with all embeddings shared. The suffix ``_prenorm`` names the same variants with
    LayerNorm before the blocks instead of after them.
    """

    encoder_class = TransEvolveEncoder
    decoder_class = TransEvolveDecoder


@dataclass
class TransEvolveClassifierConfig(SequenceClassifierConfig, TransEvolveEncoderConfig):
    """Options of the classifier; the defaults are the paper's small model, fullFF-2 (sec. 7.1)."""

    encoder_embed_dim: int = option(256, "encoder width")
    encoder_ffn_embed_dim: int = option(1024, "inner width of the encoder's FFN")


@register_model("transevolve_classifier", dataclass=TransEvolveClassifierConfig)
class TransEvolveClassifier(BlockSizes, SequenceClassifier):
    """TransEvolve's encoder as a classifier; presets: the paper's four variants, also pre-norm."""

    encoder_class = TransEvolveEncoder


@dataclass
class TransEvolveLanguageModelConfig(DecoderOnlyConfig, TransEvolveBlockConfig):
    """Options of the language model; the defaults have the sizes of the base model, fullFF-2."""

    decoder_blocks: int = option(
        2, "number of decoder blocks; each computes its attention scores once"
    )
    decoder_depth: int = option(3, "depth L of a decoder block, its number of layers")
    time_dim: int = time_dim_option("decoder")
    decoder_normalize_before: bool = option(False, NORMALIZE.format("decoder"))


@register_model("transevolve_lm", dataclass=TransEvolveLanguageModelConfig)
class TransEvolveLanguageModel(BlockSizes, DecoderOnlyModel):
    """TransEvolve's decoder without an encoder, as a causal language model.

    The model is not in the paper. Its architectures have the sizes of the paper's four variants.
    """

    decoder_class = TransEvolveCausalDecoder


# --- the paper's variants (section 7.1) ------------------------------------

for _model, _side, _prenorm in (
    ("transevolve", "encoder", ("encoder", "decoder")),  # the decoder has as many blocks
    ("transevolve_classifier", "encoder", ("encoder",)),
    ("transevolve_lm", "decoder", ("decoder",)),
):
    for _ffn_type, (_blocks, _depth) in product(("random", "full"), ((1, 6), (2, 3))):
        _name = f"{_model}_{_ffn_type}ff_{_blocks}"
        _options = {"ffn_type": _ffn_type, f"{_side}_blocks": _blocks, f"{_side}_depth": _depth}
        if _model == "transevolve":
            _options["share_all_embeddings"] = True
        register_preset(_model, _name, **_options)
        # LayerNorm before the blocks; the authors' code has it after them.
        _options |= {f"{side}_normalize_before": True for side in _prenorm}
        register_preset(_model, f"{_name}_prenorm", **_options)
