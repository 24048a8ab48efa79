"""TransEvolve (Dutta et al. 2021): attention computed once a block, evolving over depth."""

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    FairseqEncoderDecoderModel,
    register_model,
    register_model_architecture,
)
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
)
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from omegaconf import II

from fairseq_odeformers.models.common.stacks import wrap_layer
from fairseq_odeformers.models.common.translation import (
    TranslationConfig,
    WithoutAlignment,
    build_embeddings,
)
from fairseq_odeformers.modules.recording import recorded
from fairseq_odeformers.options import at_least_one, check_layers, option, side

from .attention import BACKENDS, check_attention_sizes
from .block import INITIALIZATIONS, TransEvolveDecoderBlock, TransEvolveEncoderBlock, shared_rows


@dataclass
class TransEvolveEncoderConfig(FairseqDataclass):
    """Options of the encoder; the defaults are the paper's base model, fullFF-2."""

    encoder_embed_dim: int = option(512, "encoder width d")
    encoder_ffn_embed_dim: int = option(2048, "encoder inner width")
    encoder_attention_heads: int = option(8, "encoder attention heads")
    encoder_blocks: int = option(2, "encoder blocks, each of which computes its attention once")
    encoder_depth: int = option(3, "depth of an encoder block")
    ffn_type: ChoiceEnum(["full", "random"]) = option(
        "full", "feed-forward layers: the Transformer's, or made of random rotations"
    )
    time_dim: int = option(II("model.encoder_embed_dim"), "width d' of the time map; even")
    attention_backend: ChoiceEnum(BACKENDS) = option(
        "auto",
        "how to evaluate the attention; same numbers (factored: in float32 on a CPU, else fused)",
    )
    encoder_normalize_before: bool = option(
        False,
        "apply layernorm before the queries and keys of each encoder block and after "
        "the last block, instead of after each",
    )
    initialization: ChoiceEnum(["auto", *INITIALIZATIONS]) = option(
        "auto",
        "start of output projections and feed-forward layers: that of the released "
        "code, or fairseq's of a Transformer, which auto takes with normalize-before",
    )
    dropout: float = option(0.1, "dropout probability of residual branches")
    embedding_dropout: float = option(0.0, "dropout probability of embeddings")
    attention_dropout: float = option(0.1, "dropout probability of queries and keys")
    checkpoint_activations: bool = option(
        False, "compute the activations of a block again in the backward pass, to save memory"
    )


@dataclass
class TransEvolveConfig(TranslationConfig, TransEvolveEncoderConfig):
    """Options of encoder and decoder."""

    decoder_blocks: int = option(II("model.encoder_blocks"), "decoder blocks")
    decoder_depth: int = option(II("model.encoder_depth"), "depth of a decoder block")
    decoder_normalize_before: bool = option(
        False,
        "apply layernorm before the queries and keys of each decoder block and after "
        "the last block, instead of after each",
    )


@register_model("transevolve", dataclass=TransEvolveConfig)
class TransEvolveModel(WithoutAlignment, FairseqEncoderDecoderModel):
    """Encoder-decoder TransEvolve: fairseq's Transformer with blocks in the place of layers.

    Everything around the blocks (embeddings, sinusoidal positions, output projection, the interface
    of training and generation) is fairseq's. ``--arch transevolve`` is the base model with free
    choices; the four ``transevolve_*`` architectures are the paper's variants, with all embeddings
    tied, and with ``_prenorm`` the same variants with LayerNorm before, not after the blocks.
    """

    @classmethod
    def build_model(cls, cfg, task):
        check_config(cfg, "encoder", "decoder")
        encoder_embed, decoder_embed = build_embeddings(
            cfg, task, "use --arch transevolve, whose embeddings are not tied"
        )
        return cls(
            TransEvolveEncoder(cfg, task.source_dictionary, encoder_embed),
            TransEvolveDecoder(cfg, task.target_dictionary, decoder_embed),
        )


class TransEvolveEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder over ``--encoder-blocks`` blocks."""

    def __init__(self, cfg, dictionary, embed_tokens):
        self.block_options = block_options(cfg, "encoder")
        config = TransformerConfig(
            dropout=cfg.embedding_dropout,
            encoder=EncDecBaseConfig(
                embed_dim=cfg.encoder_embed_dim,
                layers=cfg.encoder_blocks,
                normalize_before=cfg.encoder_normalize_before,
            ),
            checkpoint_activations=cfg.checkpoint_activations,
            max_source_positions=cfg.max_source_positions,
        )
        super().__init__(config, dictionary, embed_tokens)

    def build_encoder_layer(self, cfg):
        return wrap_layer(TransEvolveEncoderBlock(**self.block_options), cfg)

    def forward(
        self, src_tokens, src_lengths=None, return_all_hiddens=False, token_embeddings=None
    ):
        """As fairseq's; all hidden states are X_0 and the state after each depth of each block."""
        with depth_states(self, return_all_hiddens) as states:
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        return {**out, "encoder_states": out["encoder_states"][:1] + states}

    def reorder_encoder_out(self, encoder_out, new_order):
        """Reorder for beam search; the beams of a sentence share one row."""
        rows, beams = shared_rows(new_order, encoder_out.get("beams", 1))
        return {**super().reorder_encoder_out(encoder_out, rows), "beams": beams}


class TransEvolveDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder over ``--decoder-blocks`` blocks."""

    def __init__(self, cfg, dictionary, embed_tokens):
        self.block_options = block_options(cfg, "decoder")
        config = TransformerConfig(
            dropout=cfg.embedding_dropout,
            decoder=DecoderConfig(
                embed_dim=cfg.decoder_embed_dim,
                layers=cfg.decoder_blocks,
                normalize_before=cfg.decoder_normalize_before,
            ),
            checkpoint_activations=cfg.checkpoint_activations,
            max_target_positions=cfg.max_target_positions,
            share_decoder_input_output_embed=(
                cfg.share_all_embeddings or cfg.share_decoder_input_output_embed
            ),
        )
        super().__init__(config, dictionary, embed_tokens)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(TransEvolveDecoderBlock(**self.block_options), cfg)

    def forward(self, prev_output_tokens, *args, return_all_hiddens=False, **kwargs):
        """As fairseq's; all hidden states are X_0 and the state after each depth of each block."""
        with depth_states(self, return_all_hiddens) as states:
            x, extra = super().forward(prev_output_tokens, *args, **kwargs)
        if return_all_hiddens:
            extra = {**extra, "inner_states": extra["inner_states"][:1] + states}
        return x, extra


@contextmanager
def depth_states(stack, wanted: bool):
    """The states (T, B, C) after each depth of each block, there as soon as the blocks have run.

    Args:
        wanted: if not there are none.

    Raises:
        ValueError: the blocks compute their activations again, so no gradient reaches the states.
    """
    if wanted and stack.cfg.checkpoint_activations and torch.is_grad_enabled():
        raise ValueError(
            "--checkpoint-activations: the states within a block, which --arclength-weight is "
            "of, are not kept; leave one of the two options out"
        )
    states = []
    blocks = stack.layers if wanted else []
    with recorded(step for block in blocks for step in block.steps()) as calls:
        yield states
    states += [call.output.transpose(0, 1) for call in calls]


def block_options(cfg, name: str) -> dict:
    """The arguments of a block of the ``encoder`` or ``decoder``."""
    own = side(cfg, name)
    initialization = cfg.initialization
    if initialization == "auto":
        initialization = "transformer" if own.normalize_before else "glorot"
    return dict(
        embed_dim=own.embed_dim,
        ffn_embed_dim=own.ffn_embed_dim,
        num_heads=own.attention_heads,
        depth=own.depth,
        time_dim=cfg.time_dim,
        ffn_type=cfg.ffn_type,
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        attention_backend=cfg.attention_backend,
        normalize_before=own.normalize_before,
        initialization=initialization,
    )


def check_config(cfg, *sides: str):
    """Refuse what cannot be built.

    Args:
        sides: those that the model has, ``encoder`` and ``decoder``.

    Raises:
        ValueError: it names the first such option, its value and the remedy.
    """
    check_layers(cfg, *sides)
    for name in sides:
        at_least_one(cfg, f"{name}_blocks", f"{name}_depth")
        width, inner = side(cfg, name).embed_dim, side(cfg, name).ffn_embed_dim
        if cfg.ffn_type == "random" and (inner % 2 or width % 2):
            raise ValueError(
                f"--ffn-type random pairs sines with cosines: --{name}-ffn-embed-dim {inner} and "
                f"--{name}-embed-dim {width} must be even"
            )
        heads = side(cfg, name).attention_heads
        try:
            check_attention_sizes(width, heads, cfg.time_dim)
        except ValueError as error:  # the width and its heads have been checked
            raise ValueError(
                f"--time-dim {cfg.time_dim}: {error}; give an even multiple of {heads}"
            ) from None


def register_variants(model, *sides):
    """Register the paper's variants (section 7.1), ``MODEL_{random,full}ff_{1,2}``.

    They have six depths in one or two blocks, and as encoder-decoders tied embeddings. In those
    that end with ``_prenorm`` the residual stream of each side passes its blocks unbroken.
    """
    for ffn_type, blocks, suffix in product(("random", "full"), (1, 2), ("", "_prenorm")):
        preset = {"ffn_type": ffn_type, "encoder_blocks": blocks, "encoder_depth": 6 // blocks}
        if "decoder" in sides:
            preset["share_all_embeddings"] = True
        if suffix:
            preset.update(dict.fromkeys((f"{name}_normalize_before" for name in sides), True))
        name = f"{model}_{ffn_type}ff_{blocks}{suffix}"
        register_model_architecture(model, name)(partial(set_unset, preset=preset))


def set_unset(args, preset):
    """Give the options of a preset to those that the command line leaves open."""
    for name, value in preset.items():
        setattr(args, name, getattr(args, name, value))


register_variants("transevolve", "encoder", "decoder")
