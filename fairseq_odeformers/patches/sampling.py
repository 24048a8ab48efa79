"""Bounds for the number and the share of tokens that generation samples from."""


def check_bounds(original, self, tgt_dict, sampling_topk=-1, sampling_topp=-1.0) -> None:
    """Extend ``Sampling.__init__``: check the number and the share of tokens to sample from.

    Raises:
        ValueError: ``sampling_topk`` exceeds the vocabulary, or ``sampling_topp`` exceeds 1. For
            the former, ``torch.topk`` would raise an error without the option's name; with the
            latter, fairseq would sample from the whole vocabulary.
    """
    size = len(tgt_dict)
    if sampling_topk > size or sampling_topk != int(sampling_topk):
        raise ValueError(
            f"sampling_topk {sampling_topk}: the vocabulary has {size:,} symbols; give a whole "
            f"number from 1 to {size}"
        )
    if sampling_topp > 1:
        raise ValueError(
            f"sampling_topp {sampling_topp}: a share of the probability; give a number above 0, "
            "at most 1"
        )
    original(self, tgt_dict, sampling_topk, sampling_topp)
