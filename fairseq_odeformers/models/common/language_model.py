"""fairseq's Transformer LM over another decoder."""

from dataclasses import dataclass

from fairseq.models import FairseqIncrementalDecoder
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from fairseq.tasks import FairseqTask
from omegaconf import II, DictConfig, OmegaConf

from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.options import option

from .transformer import stack_config

NO_LAYERS = {"decoder_layers": 0, "decoder_layers_to_keep": None, "base_layers": 0}


@dataclass
class LanguageModelConfig(TransformerLanguageModelConfig):
    """Options of fairseq's Transformer LM; input and output have the layers' width by default."""

    decoder_input_dim: int = option(II("model.decoder_embed_dim"), "decoder input dimension")
    decoder_output_dim: int = option(II("model.decoder_embed_dim"), "decoder output dimension")


class LanguageModel(BaseModel, TransformerLanguageModel):
    """A model is a subclass that names its ``decoder_class``.

    The class is made of fairseq's Transformer config, a dictionary and an embedding, and takes
    ``no_encoder_attn``.
    """

    decoder_class: type[FairseqIncrementalDecoder]

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "LanguageModel":
        """A model of the language of a task.

        Raises:
            ValueError: as :meth:`check_config`.
        """
        cls.check_config(cfg)
        # fairseq's model makes the embeddings, in whatever form the options ask for.
        embeddings = super().build_model(OmegaConf.merge(cfg, NO_LAYERS), task).decoder
        decoder = cls.decoder_class(
            stack_config(cfg, max_target_positions=embeddings.max_target_positions),
            task.target_dictionary,
            embeddings.embed_tokens,
            no_encoder_attn=True,
        )
        return cls(decoder)
