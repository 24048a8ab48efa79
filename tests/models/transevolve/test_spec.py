"""The sizes of a block that do not fit together."""

import pytest

from fairseq_odeformers.models.transevolve.spec import BlockSpec


@pytest.mark.parametrize(
    ("embed_dim", "heads", "time_dim", "message"),
    [
        (12, 5, 12, "embed_dim 12 .* 5 heads"),
        (12, 0, 12, "0 heads"),
        (12, 3, 5, "^time_dim 5 .*even"),
        (12, 3, 8, "^time_dim 8 .* 3"),
        (12, 3, 0, "^time_dim 0 "),
    ],
)
def test_sizes_that_do_not_fit_are_named(embed_dim, heads, time_dim, message):
    with pytest.raises(ValueError, match=message):
        BlockSpec(embed_dim, 12, heads, depth=4, time_dim=time_dim)
