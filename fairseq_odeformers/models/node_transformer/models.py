"""The registered N-ODE Transformers (classifier, translator, language model) and their options."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from omegaconf import II

from fairseq_odeformers.models.common.dial import Dial
from fairseq_odeformers.models.common.language_model import DecoderOnlyConfig, DecoderOnlyModel
from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.models.common.parity_model import ParityModel, ParityModelConfig
from fairseq_odeformers.models.common.translation import TranslationConfig, TranslationModel
from fairseq_odeformers.modules.tableaus import ADAPTIVE, FIXED_GRID
from fairseq_odeformers.options import option

from .stacks import NodeTransformerCausalDecoder, NodeTransformerDecoder, NodeTransformerEncoder

FORMS = ("composed", "residual")
ADAPTIVITY = ("batch", "sequence")
ON_MAX_STEPS = ("raise", "stop")
STEPS = "adaptive steps: batch, common to all texts of a batch; sequence, separate for each text"
FORMULAS = "dX/dt: composed, FFN(alpha X + MHSA(X)); residual, MHSA(X) + FFN(X + MHSA(X))"
NORMALIZE = "apply LayerNorm before each part of dX/dt in the {}, and after the last block"


@dataclass
class FieldConfig(FairseqDataclass):
    """Options of the ODE; the defaults are the paper's."""

    vector_field: str = option("composed", FORMULAS, choices=FORMS)
    skip_connection: bool = option(False, "set alpha = 1, not 0, in --vector-field composed")
    time_dependent_attention: bool = option(
        False, "add a term c t to the affine maps of the attention too, not only of the FFN"
    )
    ode_final_time: float = option(1.0, "time T_F at which a solve ends; it starts at 0", above=0)
    checkpoint_activations: bool = option(
        False, "recompute the activations of a solve in the backward pass to save memory"
    )
    arclength_order: int = option(
        1,
        "order of the time derivative in the arclength; 2 and 3 take several times as long as 1, "
        "even without --arclength-weight",
        at_least=1,
        at_most=3,
    )


@dataclass
class NodeEncoderConfig(FieldConfig):
    """Options of the ODE and of its solver in the encoder; the defaults are the paper's."""

    ode_method: str = option(
        "dopri5",
        f"solver: adaptive ({', '.join(ADAPTIVE)}), or on a fixed grid ({', '.join(FIXED_GRID)}; "
        "rk4 is the 3/8 rule)",
        choices=(*ADAPTIVE, *FIXED_GRID),
    )
    ode_rtol: float = option(1e-5, "relative tolerance of an adaptive solver", above=0)
    ode_atol: float = option(1e-5, "absolute tolerance of an adaptive solver", above=0)
    ode_steps: Optional[int] = option(
        None,
        "number of equal steps; required with --ode-method euler, midpoint or rk4, and rejected "
        "with an adaptive method",
        at_least=1,
    )
    ode_max_steps: int = option(1000, "maximum number of steps of an adaptive solve", at_least=1)
    ode_on_max_steps: str = option(
        "raise",
        "after --ode-max-steps, raise an error, or stop at the current state and log the share of "
        "such texts as encoder_unfinished_*",
        choices=ON_MAX_STEPS,
    )
    adaptivity: str = option("batch", STEPS, choices=ADAPTIVITY)
    adjoint: bool = option(
        False,
        "compute encoder gradients by the adjoint method: slower, but memory does not grow with "
        "the number of adaptive steps; needs --adaptivity batch",
    )
    encoder_normalize_before: bool = option(False, NORMALIZE.format("encoder"))
    tpu: bool = II("common.tpu")


@dataclass
class DecoderSolverConfig(FairseqDataclass):
    """Options of the solver of a decoder."""

    decoder_ode_method: str = option(
        "rk4", "solver of the decoder, on a fixed grid", choices=tuple(FIXED_GRID)
    )
    decoder_ode_steps: int = option(1, "number of steps of the decoder's solver", at_least=1)


class CheckedOptions(BaseModel):
    """Mixin for the models, with a check for options that exclude each other."""

    training_options = ("checkpoint_activations", "adjoint")

    @classmethod
    def check_config(cls, cfg: FieldConfig) -> None:
        super().check_config(cfg)
        for message in cls.conflicts(cfg):
            raise ValueError(message)

    @classmethod
    def depth_dials(cls, cfg) -> Sequence[Dial]:
        """Return the steps or the tolerances of the encoder, and the steps of the decoder."""
        dials = []
        for side in ("", "decoder_"):
            method = cfg[f"{side}ode_method"] if f"{side}ode_method" in cfg else None
            if method in FIXED_GRID:
                steps = f"{side}ode_steps"
                dials.append(Dial({steps: cfg[steps]}, FIXED_GRID[method].order))
            elif method in ADAPTIVE:
                dials.append(Dial({name: cfg[name] for name in ("ode_rtol", "ode_atol")}))
        return dials

    @classmethod
    def conflicts(cls, cfg: FieldConfig) -> Iterator[str]:
        """Yield a message for each pair of options that exclude each other, with the remedy."""
        if cfg.skip_connection and cfg.vector_field == "residual":
            yield (
                "--skip-connection: --vector-field residual has all skip connections; leave it out"
            )


class CheckedSolver(CheckedOptions):
    """Mixin for the models with an encoder, with a check of its solver's options as well."""

    @classmethod
    def conflicts(cls, cfg: NodeEncoderConfig) -> Iterator[str]:
        method, grid = f"--ode-method {cfg.ode_method}", f"choose one of {', '.join(FIXED_GRID)}"
        if cfg.ode_method in FIXED_GRID:
            if cfg.ode_steps is None:
                yield f"{method}: set --ode-steps as well"
        else:
            if cfg.ode_steps is not None:
                yield f"--ode-steps {cfg.ode_steps}: {method} is adaptive; leave it out, or {grid}"
            if cfg.tpu:
                yield (
                    f"{method}: XLA cannot compile it; {grid} with --ode-steps, or leave out --tpu"
                )
        if cfg.adjoint:
            if cfg.ode_on_max_steps == "stop":
                yield (
                    "--ode-on-max-steps stop: --adjoint solves backwards from T_F, which must be "
                    "reached; leave one of them out"
                )
            if cfg.adaptivity == "sequence" and cfg.ode_method in ADAPTIVE:
                yield "--adjoint: it solves the batch as a whole; set --adaptivity batch"
            if cfg.checkpoint_activations:
                yield (
                    "--checkpoint-activations: --adjoint keeps no activations either; leave it out"
                )
            if cfg.tpu:
                yield "--adjoint: torchdiffeq's solver does not compile with XLA; leave it out"
        yield from super().conflicts(cfg)


@dataclass
class NodeTransformerConfig(NodeEncoderConfig, ParityModelConfig):
    """Options of the classifier; the defaults are the paper's parity model."""


@register_model("node_transformer", dataclass=NodeTransformerConfig)
class NodeTransformer(CheckedSolver, ParityModel):
    """Encoder of adaptive N-ODE blocks, as in the paper."""

    encoder_class = NodeTransformerEncoder


@dataclass
class NodeTransformerMTConfig(DecoderSolverConfig, NodeEncoderConfig, TranslationConfig):
    """Options of the translator; the defaults resemble a Transformer in sizes and LayerNorms."""

    encoder_embed_dim: int = option(512, "encoder width")
    encoder_ffn_embed_dim: int = option(2048, "inner width of the encoder's FFN")
    encoder_attention_heads: int = option(8, "number of attention heads in the encoder")
    encoder_layers: int = option(3, "number of encoder blocks")
    encoder_normalize_before: bool = option(True, NORMALIZE.format("encoder"))
    decoder_layers: int = option(II("model.encoder_layers"), "number of decoder blocks")
    decoder_normalize_before: bool = option(
        II("model.encoder_normalize_before"), NORMALIZE.format("decoder")
    )
    vector_field: str = option("residual", FORMULAS, choices=FORMS)
    ode_rtol: float = option(1e-3, "relative tolerance of an adaptive solver", above=0)
    ode_atol: float = option(1e-3, "absolute tolerance of an adaptive solver", above=0)
    adaptivity: str = option("sequence", STEPS, choices=ADAPTIVITY)
    dropout: float = option(0.1, "dropout probability")
    no_token_positional_embeddings: bool = option(False, "omit positional embeddings")


@register_model("node_transformer_mt", dataclass=NodeTransformerMTConfig)
class NodeTransformerMT(CheckedSolver, TranslationModel):
    """Encoder-decoder over N-ODE blocks: the encoder is adaptive, the decoder has a fixed grid.

    Each sentence has its own adaptive steps (``--adaptivity sequence``), so that its states do not
    depend on the batch. With common steps and a tolerance of 1e-3, the rest of the batch would
    change them by some thousandths.
    """

    encoder_class = NodeTransformerEncoder
    decoder_class = NodeTransformerDecoder


@dataclass
class NodeTransformerLMConfig(DecoderSolverConfig, DecoderOnlyConfig, FieldConfig):
    """Options of the language model; the defaults match ``node_transformer_mt``'s decoder."""

    decoder_layers: int = option(3, "number of blocks")
    decoder_normalize_before: bool = option(True, NORMALIZE.format("decoder"))
    vector_field: str = option("residual", FORMULAS, choices=FORMS)
    dropout: float = option(0.1, "dropout probability")
    no_token_positional_embeddings: bool = option(False, "omit positional embeddings")


@register_model("node_transformer_lm", dataclass=NodeTransformerLMConfig)
class NodeTransformerLM(CheckedOptions, DecoderOnlyModel):
    """Causal language model over N-ODE blocks with a fixed grid; it is not in the paper."""

    decoder_class = NodeTransformerCausalDecoder
