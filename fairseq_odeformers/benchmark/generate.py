"""Beam search over a batch by fairseq's generator; output is as long as input."""

from fairseq.sequence_generator import SequenceGenerator

from .subjects import Subject, converted
from .timing import Step


def step(subject: Subject, args, length: int) -> Step:
    words = subject.task.target_dictionary
    model = converted(subject.model, args.precision).eval()
    generator = SequenceGenerator(
        [model], words, beam_size=args.beam, max_len_a=0, max_len_b=length, min_len=length
    )
    inputs = subject.sample(args.batch, length)["net_input"]
    inputs["src_tokens"][:, -1] = words.eos()

    def run():
        with subject.attention():
            generator.generate([model], {"net_input": inputs})

    return run
