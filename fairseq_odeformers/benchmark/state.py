"""What generation keeps of the tokens that it has written: bytes for a sequence of some length."""

import torch
from fairseq.models import FairseqLanguageModel
from torch.utils._pytree import tree_leaves

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
    storages = (part.untyped_storage() for part in tree_leaves(state) if torch.is_tensor(part))
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
