"""fairseq-train, with the CPU seconds of its updates in its log.

On a machine that others use as well, they tell what a training costs; the clock does not.
"""

import runpy
import time

from fairseq import metrics
from fairseq.trainer import Trainer

from fairseq_odeformers.lab.compare.results import CPU


def main() -> None:
    train_step = Trainer.train_step

    def timed_step(self, *args, **options):
        start = time.process_time()
        try:
            return train_step(self, *args, **options)
        finally:
            if not self.cuda:  # whose process waits for the device
                metrics.log_scalar_sum(CPU, time.process_time() - start, priority=800, round=2)

    Trainer.train_step = timed_step
    runpy.run_module("fairseq_cli.train", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
