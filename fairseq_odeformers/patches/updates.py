"""The batches of an update, which several processes share."""

from .guest import trains_ours


def train_step(original, self, samples, *args, **kwargs):
    """fairseq's method; a process leaves out the empty batches at the end of its share.

    The last update of an epoch may have a batch less for some processes, in whose place fairseq
    puts an empty one. A process that has only such a batch still takes part.

    The processes of FSDP and of a TPU exchange something in each batch, so there it stays.
    """
    if trains_ours(self.cfg) and not (self.is_fsdp or self.tpu):
        samples = [sample for sample in samples if sample] or samples[:1]
    return original(self, samples, *args, **kwargs)
