"""What a Macaron layer adds to fairseq's, whose config has all its options."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec


@dataclass(frozen=True)
class LayerSpec(Spec):
    """Sizes of FFN_down: the options of these names, which FFN_up has from fairseq's config."""

    embed_dim: int  # C
    ffn_embed_dim: int
