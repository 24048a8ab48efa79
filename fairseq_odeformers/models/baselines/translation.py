"""fairseq's Transformer with LayerNorm before each sub-layer: the baseline in translation."""

from fairseq.models import register_model

from fairseq_odeformers.models.common.stacks import PreNormTransformer, PreNormTransformerConfig


@register_model("transformer_prenorm", dataclass=PreNormTransformerConfig)
class PreNormTransformerModel(PreNormTransformer):
    """fairseq's own Transformer, whose residual stream no LayerNorm breaks.

    It differs from ``--arch transformer --encoder-normalize-before --decoder-normalize-before`` in
    ``--embedding-dropout``, which fairseq ties to ``--dropout``, and in nothing else.
    """
