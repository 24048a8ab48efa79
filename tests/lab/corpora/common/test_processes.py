"""Work in several processes keeps its order, bounds its memory, and never hangs."""

import operator
import signal
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice

import pytest

from fairseq_odeformers.lab.corpora.common.processes import CHUNK_SIZE, map_in_processes


@pytest.mark.parametrize("count", [0, 5, CHUNK_SIZE, 20 * CHUNK_SIZE + 1])
@pytest.mark.parametrize("workers", [1, 3])
def test_results_have_the_order_of_the_items(count, workers):
    results = map_in_processes(partial, (operator.add, 10), range(count), workers)
    assert list(results) == list(range(10, count + 10))


@pytest.mark.parametrize("chunk_size", [1, CHUNK_SIZE])
def test_reading_keeps_pace_with_the_caller(chunk_size):
    """However slowly the results are taken, a few chunks are in memory."""
    items_read = []

    def items():
        for number in range(20_000):
            items_read.append(number)
            yield number

    results = map_in_processes(partial, (operator.neg,), items(), 2, chunk_size)
    assert list(islice(results, 300)) == [-number for number in range(300)]
    assert len(items_read) < 300 + 10 * chunk_size < 20_000
    results.close()


def test_a_killed_process_is_an_error():
    """As when memory runs out; signal 0 does nothing."""
    signals = [0] * 3 * CHUNK_SIZE + [signal.SIGKILL] + [0] * 20 * CHUNK_SIZE
    with pytest.raises(BrokenProcessPool):
        list(map_in_processes(partial, (signal.raise_signal,), signals, workers=2))


@pytest.mark.parametrize(
    "make_function, args, items, error",
    [
        (open, ("absent/file",), range(5), BrokenProcessPool),
        (partial, (float,), ["1", "x"], ValueError),
        (partial, (abs,), map(float, ["1"] * 2 * CHUNK_SIZE + ["x"]), ValueError),
    ],
)
def test_an_error_is_raised(make_function, args, items, error):
    """Of making the function, of the function, and of reading."""
    with pytest.raises(error):
        list(map_in_processes(make_function, args, items, workers=2))
