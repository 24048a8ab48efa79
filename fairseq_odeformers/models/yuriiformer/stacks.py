"""fairseq's encoder and decoder over a block of layers, and the initial velocity."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import get_ident
from typing import Any

from fairseq.models.transformer import Embedding, TransformerConfig
from fairseq.modules import PositionalEmbedding
from torch import Tensor, nn

from fairseq_odeformers.models.common.answers import PaddedDecoder, PaddedEncoder
from fairseq_odeformers.models.common.depths import DecoderOfDepths, EncoderOfDepths, join_layers
from fairseq_odeformers.models.common.transformer import Config, Decoder, Encoder, stack_config
from fairseq_odeformers.modules.incremental import IncrementalState

from .layer import LayerNormWithoutBias, MomentumBlock, MomentumDecoderLayer, MomentumEncoderLayer
from .spec import LayerSpec


class VelocityEmbedding(nn.Module):
    """The embedding of tokens and positions for the initial velocity, built like the state's.

    It has no dropout and no LayerNorm.

    Args:
        stack: fairseq's encoder or decoder.
        cfg: fairseq's config.
        side: ``encoder`` or ``decoder``.
    """

    def __init__(self, stack: Any, cfg: TransformerConfig, side: str):
        super().__init__()
        width, padding = getattr(cfg, side).embed_dim, stack.padding_idx
        self.scale = stack.embed_scale
        self.embed_tokens = Embedding(len(stack.dictionary), width, padding)
        self.embed_positions = None
        if stack.embed_positions is not None:
            longest = cfg.max_source_positions, cfg.max_target_positions
            self.embed_positions = PositionalEmbedding(
                longest[side == "decoder"], width, padding, getattr(cfg, side).learned_pos
            )

    def forward(self, tokens: Tensor, incremental_state: IncrementalState = None) -> Tensor:
        """Return the velocity (T, B, C) for tokens (B, T).

        With an incremental state, return only the velocity (1, B, C) for the last token.
        """
        positions = None
        if self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
            positions = None if positions is None else positions[:, -1:]
        velocity = self.scale * self.embed_tokens(tokens)
        if positions is not None:
            velocity = velocity + positions
        return velocity.transpose(0, 1)


class MomentumStack(nn.Module):
    """Mixin for an encoder or decoder with one block of all layers and LayerNorms without bias."""

    spec_class = LayerSpec
    side: str
    spec: LayerSpec
    layers: Any
    layer_norm: Any

    def __init__(self, cfg: Config, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        width = self.layers[0].embed_dim
        self.velocity = None
        if self.spec.velocity == "embedding":
            self.velocity = VelocityEmbedding(self, stack_config(cfg), self.side)
        join_layers(self, MomentumBlock(self.layers))
        if self.layer_norm is not None:
            self.layer_norm = LayerNormWithoutBias(width)

    def built(self, layer: nn.Module) -> nn.Module:
        """Return a layer unchanged, and mark the layers built after it as not the first."""
        self.spec = replace(self.spec, first=False)
        return layer

    @contextmanager
    def starting(
        self, tokens: Tensor, incremental_state: IncrementalState = None
    ) -> Iterator[None]:
        """Pass the velocity for tokens (B, T) to the block in calls from this thread.

        fairseq's loop over the layers could only pass states and masks.
        """
        if self.velocity is None:
            yield
            return
        velocity, thread = self.velocity(tokens, incremental_state), get_ident()

        def pass_velocity(block: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
            return (args, {**kwargs, "velocity": velocity}) if get_ident() == thread else None

        hook = self.layers[0].register_forward_pre_hook(pass_velocity, with_kwargs=True)
        try:
            yield
        finally:
            hook.remove()

    def statistics(self, texts: int) -> dict[str, Tensor]:
        """Return the scalars of each layer for the log, as values (B), one per text."""
        return {
            f"{self.side}_{name}_{number}": weight.expand(texts)
            for number, layer in enumerate(self.layers[0].depths, start=1)
            for name, weight in layer.residual_weights().items()
        }


class MomentumEncoder(MomentumStack, EncoderOfDepths, Encoder):
    """fairseq's Transformer encoder over a :class:`.MomentumBlock`.

    In addition to the output of fairseq's encoder, it returns the dictionary ``statistics``.
    """

    side = "encoder"
    layer_class = MomentumEncoderLayer

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return self.built(super().build_encoder_layer(cfg))

    def forward(self, src_tokens: Tensor, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Encode tokens (B, T) as fairseq's encoder does."""
        with self.starting(src_tokens):
            out = super().forward(src_tokens, *args, **kwargs)
        return {**out, "statistics": self.statistics(len(src_tokens))}

    def for_export(self) -> PaddedEncoder:
        """Return the encoder in a form that always gets a padding mask."""
        return PaddedMomentumEncoder(self)


class PaddedMomentumEncoder(PaddedEncoder):
    """A :class:`.PaddedEncoder` with the initial velocity of the encoder."""

    encoder: MomentumEncoder

    def forward(self, src_tokens: Tensor, *args: Any, **kwargs: Any) -> dict[str, list[Tensor]]:
        with self.encoder.starting(src_tokens):
            return super().forward(src_tokens, *args, **kwargs)


class MomentumDecoder(MomentumStack, DecoderOfDepths, Decoder):
    """fairseq's Transformer decoder over a :class:`.MomentumBlock`, for translators and LMs.

    In addition to the output of fairseq's decoder, it returns the dictionary ``statistics``.
    """

    side = "decoder"
    layer_class = MomentumDecoderLayer

    def build_decoder_layer(
        self, cfg: TransformerConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
        return self.built(super().build_decoder_layer(cfg, no_encoder_attn))

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: IncrementalState = None,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Map tokens (B, T) to states (B, T, C) and extra outputs, as fairseq's decoder does."""
        inputs = prev_output_tokens, encoder_out, incremental_state
        with self.starting(prev_output_tokens, incremental_state):
            x, extra = super().extract_features(*inputs, *args, **kwargs)
        return x, {**extra, "statistics": self.statistics(len(x))}

    def for_export(self) -> PaddedDecoder:
        """Return the decoder in a form that takes the same path with and without padding."""
        return PaddedMomentumDecoder(self)


class PaddedMomentumDecoder(PaddedDecoder):
    """A :class:`.PaddedDecoder` with the initial velocity of the decoder."""

    decoder: MomentumDecoder

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: IncrementalState = None,
        **unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        with self.decoder.starting(prev_output_tokens, incremental_state):
            return super().forward(prev_output_tokens, encoder_out, incremental_state)
