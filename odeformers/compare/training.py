"""Run fairseq-train, and also log the CPU time and the wall-clock time of its updates.

On a shared machine, CPU time shows what training costs. fairseq rounds the wall-clock time of
each epoch to seconds, and an epoch may take less than a second.
"""

import runpy
import time

# The plugin must be imported first. Otherwise, fairseq's import sets up logging first, in a format
# in which the statistics cannot be found.
from .results.curves import CLOCK, CPU  # isort: skip

from fairseq import metrics
from fairseq.trainer import Trainer


def main() -> None:
    train_step = Trainer.train_step

    def timed_step(self, *args, **options):
        clock, cpu = time.perf_counter(), time.process_time()
        try:
            return train_step(self, *args, **options)
        finally:
            metrics.log_scalar_sum(CLOCK, time.perf_counter() - clock, priority=800, round=2)
            if not self.cuda:  # on a GPU, the process waits for the device
                metrics.log_scalar_sum(CPU, time.process_time() - cpu, priority=800, round=2)

    Trainer.train_step = timed_step
    runpy.run_module("fairseq_cli.train", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
