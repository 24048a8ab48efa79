"""Vector fields of the N-ODE Transformer: padding, time, dropout."""

import torch

from fairseq_odeformers.models.node_transformer.field import TransformerField
from fairseq_odeformers.models.node_transformer.spec import BlockSpec

C, H, INNER = 6, 3, 5


def make_field(decoder=False, **options):
    torch.manual_seed(0)
    return TransformerField(BlockSpec(C, H, INNER, **options), decoder)


def dropped(f):
    """The places (3, C, T, B) where sub-layers drop their outputs, for any t and X."""
    results = []
    for t in (0.3, 0.7):
        x = torch.rand(C, 40, 30)
        results.append(torch.stack([sublayer(t, x) == 0 for sublayer in sublayers(f)]))
    assert torch.equal(*results)
    return results[0].double()


def sublayers(f):
    return [*f.attentions, f.feed_forward]


def test_dropout_masks_are_constant_during_a_solve():
    """Each sub-layer and each solve has its own mask; two masks share half of their zeros."""
    field = make_field(dropout=0.5, decoder=True)
    x, source = torch.randn(C, 40, 30), torch.randn(5, 30, C)
    masks = torch.cat([dropped(field.bind(x, source=source)) for _ in range(2)]).flatten(1)
    assert torch.allclose(
        masks @ masks.T / masks.size(1), torch.eye(6).double() / 4 + 0.25, atol=0.03
    )
    f = field.bind(x, source=source)
    kept = sublayers(f)[0](0.3, x)
    assert torch.allclose(kept, 2 * sublayers(f)[0].function(0.3, x) * (kept != 0))
    assert not dropped(field.eval().bind(x, source=source)).any()
