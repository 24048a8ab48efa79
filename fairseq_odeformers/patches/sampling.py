"""Bounds of the tokens that a translation or a text is drawn from."""


def check_bounds(original, self, tgt_dict, sampling_topk=-1, sampling_topp=-1.0) -> None:
    """fairseq's ``Sampling.__init__``, for numbers within the vocabulary and shares up to 1.

    Raises:
        ValueError: a number is beyond; ``topk`` of torch would say so without the option's name,
            and a share above 1 would sample from the whole vocabulary.
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
