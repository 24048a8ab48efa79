"""How many updates of each model fill a number of CPU minutes, timed side by side.

    odeformers compare examples/lra/long_text.yaml --dry-run > commands.txt
    python examples/scoreboard/updates.py commands.txt --minutes 60

The first fairseq-train of each architecture is timed. In each round the models take turns at one
update on a full batch of each length, with one thread. The seconds of an update are the median over
rounds, then the mean over lengths, weighted by the number of their batches in an epoch.
"""

import argparse
import shlex
import time
from pathlib import Path
from statistics import median

import torch
from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import parse_args_and_arch
from fairseq.trainer import Trainer

from odeformers.fairseq_options import training_parser


class Training:
    """A training of fairseq's, with a full batch of each length."""

    def __init__(self, words: list[str]):
        plugin = words.index("--user-dir")  # is imported already
        args = parse_args_and_arch(training_parser(), [*words[1:plugin], *words[plugin + 2 :]])
        cfg = convert_namespace_to_omegaconf(args)
        torch.manual_seed(cfg.common.seed)
        task = tasks.setup_task(cfg.task)
        model = task.build_model(cfg.model)
        self.parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        self.trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
        epoch = self.trainer.get_train_iterator(epoch=1)
        task.load_dataset(cfg.dataset.valid_subset)  # whose first batch the trainer asks for
        by_length: dict[int, list] = {}
        for batch in epoch.frozen_batches:
            by_length.setdefault(int(epoch.dataset.size(batch[0])), []).append(batch)
        self.counts = {length: len(batches) for length, batches in sorted(by_length.items())}
        self.samples = {
            length: epoch.collate_fn([epoch.dataset[index] for index in max(batches, key=len)])
            for length, batches in by_length.items()
        }

    def update(self, length: int) -> float:
        """The CPU seconds of an update on the batch of a length."""
        start = time.process_time()
        self.trainer.train_step([self.samples[length]])
        return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Time updates of several models side by side.")
    parser.add_argument("commands", type=Path, help="output of odeformers compare --dry-run")
    parser.add_argument("--minutes", type=float, default=60, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    trainings: dict[str, Training] = {}
    for line in args.commands.read_text(encoding="utf-8").splitlines():
        if line.startswith("fairseq-train "):
            words = shlex.split(line)
            name = words[words.index("--arch") + 1]
            if name not in trainings:
                trainings[name] = Training(words)
    lengths = next(iter(trainings.values())).counts
    times: dict[tuple[str, int], list[float]] = {}
    for counted in [False] + [True] * args.rounds:  # the first update of a length allocates memory
        for length in lengths:
            for name, training in trainings.items():
                seconds = training.update(length)
                if counted:
                    times.setdefault((name, length), []).append(seconds)
    print(f"architecture,parameters,seconds,updates,{','.join(map(str, lengths))}")
    epoch = sum(lengths.values())
    for name, training in trainings.items():
        each = {length: median(times[name, length]) for length in lengths}
        mean = sum(each[length] * count for length, count in lengths.items()) / epoch
        shown = ",".join(f"{seconds:.3f}" for seconds in each.values())
        updates = int(60 * args.minutes / mean)
        print(f"{name},{training.parameters},{mean:.4f},{updates},{shown}", flush=True)
    print(f"batches per epoch,,,{epoch},{','.join(map(str, lengths.values()))}")


if __name__ == "__main__":
    main()
