"""Bounds of the options for top-k and top-p sampling."""

from fairseq_odeformers.errors import InputError

from .ownership import error_if, is_ours


def build_generator(original, self, models, args, *more, **kwargs):
    """Build fairseq's generator after checking the options of sampling."""
    if getattr(args, "sampling", False):
        top_k, top_p = (getattr(args, f"sampling_{name}", -1) for name in ("topk", "topp"))
        with error_if(is_ours(*map(type, (self, *models)))):
            check_bounds(top_k, top_p, len(self.target_dictionary))
    return original(self, models, args, *more, **kwargs)


def check_bounds(top_k: float, top_p: float, size: int) -> None:
    """Check the options of sampling for a vocabulary with *size* symbols.

    Raises:
        InputError: *top_k* is not an integer or exceeds the vocabulary, so ``torch.topk`` would
            raise an error that does not name the option; or *top_p* exceeds 1, so that fairseq
            would sample from the entire vocabulary.
    """
    if top_k > size or top_k != int(top_k):
        raise InputError(
            f"sampling_topk {top_k}: the vocabulary has {size:,} symbols; give a whole number from "
            f"1 to {size}"
        )
    if top_p > 1:
        raise InputError(
            f"sampling_topp {top_p}: a share of probability; give a number above 0 and at most 1"
        )
