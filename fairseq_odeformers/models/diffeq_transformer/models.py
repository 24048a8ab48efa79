"""The registered models: DiffEqFormer (Tong et al. 2025) for translation, classes and language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from fairseq.utils import get_available_activation_fns
from omegaconf import II

from fairseq_odeformers.models.common.dial import Dial
from fairseq_odeformers.models.common.language_model import DecoderOnlyConfig, DecoderOnlyModel
from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.models.common.sequence_classifier import (
    SequenceClassifier,
    SequenceClassifierConfig,
)
from fairseq_odeformers.models.common.translation import TranslationConfig, TranslationModel
from fairseq_odeformers.modules.tableaus import EULER
from fairseq_odeformers.options import option
from fairseq_odeformers.registry import register_preset

from .spec import FEATURES, INITIALIZATIONS
from .stacks import DiffEqCausalDecoder, DiffEqDecoder, DiffEqEncoder


@dataclass
class TimeConfig(FairseqDataclass):
    """Options of the weights as functions of time, and options that all sides share."""

    time_embed_dim: Optional[int] = option(
        None,
        "width E of the time embedding of each weight (default: steps - 1, so that the model is as "
        "large as a Transformer with as many layers as steps; 1 for a single step)",
        at_least=1,
    )
    time_features: str = option(
        "harmonic",
        "frequencies of the time features: harmonic, slow enough that a trained model can take a "
        "different number of steps, or released, as in the authors' code",
        choices=FEATURES,
    )
    time_frequencies: int = option(
        4, "number S of frequencies of the time features; 0 for only t", at_least=0, at_most=1000
    )
    initialization: str = option(
        "transformer",
        "initial weights: transformer, with the scale of a Transformer's weights at all times, or "
        "released, as in the authors' code",
        choices=INITIALIZATIONS,
    )
    eval_steps: Optional[int] = option(
        None,
        "number of steps in encoder and decoder, to evaluate or fine-tune a model that was trained "
        "with another number",
        at_least=1,
    )
    dropout: float = option(0.1, "dropout probability of branches")
    embedding_dropout: float = option(II("model.dropout"), "dropout probability of embeddings")
    attention_dropout: float = option(0.1, "dropout probability of attention weights")
    activation_dropout: float = option(
        0.0, "dropout probability after the activation function of FFNs"
    )
    activation_fn: str = option(
        "relu", "activation function of FFNs", choices=tuple(get_available_activation_fns())
    )
    checkpoint_activations: bool = option(
        False, "recompute the activations of a step in the backward pass, to save memory"
    )
    no_token_positional_embeddings: bool = option(False, "omit positional embeddings")


@dataclass
class DiffEqEncoderConfig(TimeConfig):
    """Options of the encoder; the defaults have the size of the base Transformer."""

    encoder_embed_dim: int = option(512, "encoder width")
    encoder_ffn_embed_dim: int = option(2048, "inner width of the encoder's FFN")
    encoder_attention_heads: int = option(8, "number of attention heads in the encoder")
    encoder_steps: int = option(6, "number L of encoder steps", at_least=1)


class StepSizes(BaseModel):
    """Mixin for the models: for equal sizes, a step counts as a layer."""

    @classmethod
    def side_sizes(cls, sizes: Mapping[str, int], options: Mapping[str, Any]) -> dict[str, int]:
        """Extend :meth:`.BaseModel.side_sizes`: the layers become steps."""
        values = super().side_sizes(sizes, options)
        if "layers" in values:
            values["steps"] = values.pop("layers")
        return values

    @classmethod
    def depth_dials(cls, cfg) -> Sequence[Dial]:
        """Return the number of steps, common to both sides, as a dial.

        Raises:
            ValueError: the sides take different numbers of steps; or the time features have such
                high frequencies that the weights between the times in training are untrained.
        """
        trained = {cfg[name] for name in ("encoder_steps", "decoder_steps") if name in cfg}
        steps = cfg.eval_steps or max(trained)
        if not cfg.eval_steps and len(trained) > 1:
            raise ValueError(
                "the sides were trained with different numbers of steps, which analyse depth "
                "cannot vary"
            )
        frequencies = cfg.time_frequencies
        released = getattr(cfg, "time_features", None) == "released"  # older checkpoints lack it
        if frequencies > (0 if released else steps):
            fast = "--time-features released" if released else f"--time-frequencies {frequencies}"
            raise ValueError(
                f"{fast}: the features oscillate too fast for the {steps} steps in training, so "
                "the weights at other times are untrained"
            )
        return [Dial({"eval_steps": steps}, EULER.order)]


@dataclass
class DiffEqConfig(TranslationConfig, DiffEqEncoderConfig):
    """Options of an encoder and a decoder of equal width."""

    decoder_steps: int = option(II("model.encoder_steps"), "number L of decoder steps", at_least=1)


@register_model("diffeq_transformer", dataclass=DiffEqConfig)
class DiffEqTransformer(StepSizes, TranslationModel):
    """DiffEqFormer as an encoder-decoder; it is not in the paper."""

    encoder_class = DiffEqEncoder
    decoder_class = DiffEqDecoder


@dataclass
class DiffEqClassifierConfig(SequenceClassifierConfig, DiffEqEncoderConfig):
    """Options of the classifier; the defaults have the size of ``transformer_classifier``."""

    encoder_embed_dim: int = option(256, "encoder width")
    encoder_ffn_embed_dim: int = option(1024, "inner width of the encoder's FFN")


@register_model("diffeq_transformer_classifier", dataclass=DiffEqClassifierConfig)
class DiffEqClassifier(StepSizes, SequenceClassifier):
    """DiffEqFormer's encoder as a classifier; it is not in the paper."""

    encoder_class = DiffEqEncoder


@dataclass
class DiffEqLanguageModelConfig(DecoderOnlyConfig, TimeConfig):
    """Options of the language model; the defaults have the size of fairseq's Transformer LM."""

    decoder_steps: int = option(6, "number L of steps", at_least=1)
    decoder_learned_pos: bool = option(False, "learn the positional embeddings")
    no_scale_embedding: bool = option(False, "do not multiply embeddings by the root of the width")


@register_model("diffeq_transformer_lm", dataclass=DiffEqLanguageModelConfig)
class DiffEqLanguageModel(StepSizes, DecoderOnlyModel):
    """The causal language model of the paper, for the task ``language_modeling``.

    The presets ``diffeq_transformer_lm_gpt2_...`` are the models of the authors' configurations.
    """

    decoder_class = DiffEqCausalDecoder


# The GPT-2s of the published configuration files for OpenWebText (config/owt of the authors' code);
# config/wikitext_103/medium.yaml has E = 48.
for size, layers, width, heads, time_width in (
    ("small", 12, 768, 12, 20),
    ("medium", 24, 1024, 16, 96),
    ("large", 36, 1280, 20, 96),
):
    register_preset(
        "diffeq_transformer_lm",
        f"diffeq_transformer_lm_gpt2_{size}",
        decoder_steps=layers,
        decoder_embed_dim=width,
        decoder_ffn_embed_dim=4 * width,
        decoder_attention_heads=heads,
        time_embed_dim=time_width,
        time_features="released",
        time_frequencies=128,
        initialization="released",
        activation_fn="gelu_accurate",
        dropout=0.1,
        attention_dropout=0.0,  # the authors' code does not pass attn_pdrop to this model
        decoder_learned_pos=True,
        no_scale_embedding=True,
        share_decoder_input_output_embed=True,
    )
