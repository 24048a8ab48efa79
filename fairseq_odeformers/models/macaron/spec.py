"""The spec of a Macaron layer: sizes that it needs in addition to fairseq's config."""

from dataclasses import dataclass

from fairseq_odeformers.models.common.transformer import Spec


@dataclass(frozen=True)
class LayerSpec(Spec):
    """The sizes of FFN_down, named after their options; FFN_up reads them from fairseq's config."""

    embed_dim: int  # C
    ffn_embed_dim: int
