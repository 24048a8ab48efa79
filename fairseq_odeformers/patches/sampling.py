"""Bounds of the options for top-k and top-p sampling."""


def check_bounds(original, self, tgt_dict, sampling_topk=-1, sampling_topp=-1.0) -> None:
    """Check the options of ``Sampling.__init__``, then call it.

    Raises:
        ValueError: ``sampling_topk`` is no integer or exceeds the vocabulary, for which
            ``torch.topk`` would raise an error without the option's name; or ``sampling_topp``
            exceeds 1, for which fairseq would sample from the whole vocabulary.
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
