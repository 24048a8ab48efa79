"""What generation keeps of the tokens that it has written: bytes for a sequence of some length."""

from collections.abc import Iterator

import torch
from fairseq.models import FairseqLanguageModel
from torch import Tensor

from . import subjects
from .subjects import converted

UNIT = "kB"


def figures(args, length: int) -> tuple[dict[str, list[float]], dict[str, int]]:
    """The state of each model in kB after *length* tokens, and its number of parameters."""
    found, sizes = {}, {}
    for name in args.models:
        subject = subjects.build(name, args)
        found[name] = [state_bytes(subject, args, length) / 1e3]
        sizes[name] = sum(parameter.numel() for parameter in subject.model.parameters())
    return found, sizes


@torch.no_grad()
def state_bytes(subject: subjects.Subject, args, length: int) -> int:
    """Bytes of the incremental state of one sequence; its source, if any, is as long."""
    model = converted(subject.model, args.precision).eval()
    inputs = subject.sample(1, length)["net_input"]
    tokens, state = inputs["src_tokens"], {}
    source = {}
    with subject.attention():
        if not isinstance(model, FairseqLanguageModel):
            source["encoder_out"] = model.encoder(tokens, inputs["src_lengths"])
        for end in range(1, length + 1):
            model.decoder(tokens[:, :end], incremental_state=state, **source)
    storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors(state)}
    return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())


def tensors(state) -> Iterator[Tensor]:
    """All tensors of a nest of dictionaries, lists and tuples."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, (dict, list, tuple)):
        for part in state.values() if isinstance(state, dict) else state:
            yield from tensors(part)
