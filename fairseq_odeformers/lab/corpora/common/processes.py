"""A function applied to a stream of items by several processes."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any, TypeVar

CHUNK_SIZE = 256  # items that a process works on at a time, if they are small

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_processes(
    make_function: Callable[..., Callable[[Item], Result]],
    args: tuple[Any, ...],
    items: Iterable[Item],
    workers: int,
    chunk_size: int = CHUNK_SIZE,
) -> Iterator[Result]:
    """Apply ``make_function(*args)`` to each item; the results have the order of the items.

    The function is made once in each of *workers* processes, so that neither it nor what it holds
    is sent to them. A process works on *chunk_size* items at a time. Only a few chunks for each
    process are read before the caller asks for their results. One worker is this process.

    Raises:
        BrokenProcessPool: a process was killed, or could not make the function.
        Exception: reading an item or applying the function to it raised this one.
    """
    if workers == 1:
        yield from map(make_function(*args), items)
        return
    items = iter(items)
    pending = deque()
    with ProcessPoolExecutor(workers, None, _start_worker, (make_function, args)) as pool:
        while chunk := list(islice(items, chunk_size)):
            pending.append(pool.submit(_work, chunk))
            if len(pending) > 4 * workers:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _start_worker(make_function: Callable[..., Callable], args: tuple[Any, ...]) -> None:
    global _function
    _function = make_function(*args)


def _work(chunk: list[Item]) -> list[Result]:
    return list(map(_function, chunk))
