"""One training step of the encoder alone: forward and backward."""

from .subjects import Subject, converted
from .timing import Step


def step(subject: Subject, args, length: int) -> Step:
    inputs = subject.sample(args.batch, length)["net_input"]
    encoder = converted(subject.model, args.precision).encoder.train()

    def run():
        with subject.attention():
            out = encoder(inputs["src_tokens"], inputs["src_lengths"])["encoder_out"][0]
            out.float().square().sum().backward()
        encoder.zero_grad()

    return run
