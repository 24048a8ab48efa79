"""fairseq's Transformer LM over another decoder."""

from argparse import Namespace
from dataclasses import dataclass

from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from fairseq.tasks import FairseqTask
from omegaconf import II, OmegaConf

from fairseq_odeformers.options import DataclassOptions, option

NO_LAYERS = {"decoder_layers": 0, "decoder_layers_to_keep": None, "base_layers": 0}


@dataclass
class LanguageModelConfig(TransformerLanguageModelConfig):
    """Options of fairseq's Transformer LM; both other widths are by default that of the layers."""

    decoder_input_dim: int = option(II("model.decoder_embed_dim"), "decoder input dimension")
    decoder_output_dim: int = option(II("model.decoder_embed_dim"), "decoder output dimension")


class LanguageModel(DataclassOptions, TransformerLanguageModel):
    """A model is a subclass that names its ``decoder_class``, one of fairseq's interface."""

    decoder_class = None

    @classmethod
    def build_model(cls, cfg: LanguageModelConfig, task: FairseqTask) -> "LanguageModel":
        cls.check_config(cfg)
        # fairseq's model makes the embeddings, in whatever form the options ask for.
        embeddings = super().build_model(OmegaConf.merge(cfg, NO_LAYERS), task).decoder
        args = Namespace(**{**cfg, "max_target_positions": embeddings.max_target_positions})
        if args.decoder_layers_to_keep:
            args.decoder_layers = len(args.decoder_layers_to_keep.split(","))
        decoder = cls.decoder_class(
            TransformerConfig.from_namespace(args),
            task.target_dictionary,
            embeddings.embed_tokens,
            no_encoder_attn=True,
        )
        return cls(decoder)
