"""Memory of large tensors on a CPU that is used again."""

import mmap
import sys
from math import prod
from threading import Lock

import torch
from torch import Tensor

# Bytes of a tensor that the C library returns to the kernel when it is freed.
LARGE_BYTES = 2**25

# References to a buffer that waits: of the list, of a loop over it, and of an argument.
WAITING = 3


class Workspace:
    """Buffers for large tensors on a CPU, which serve one tensor after the other.

    The C library returns the memory of a large tensor to the kernel when the tensor is freed, and
    the kernel clears the next one page by page, which takes as long as reading it several times.
    Here the buffer waits for the next tensor that fits in. A tensor that fits in none is given a
    new one, and those that wait are freed: what is held is what tensors have, and buffers that
    were all in use since the last new one.
    """

    def __init__(self):
        self.buffers: list[mmap.mmap] = []
        self.lock = Lock()

    def empty(self, like: Tensor, *shape: int) -> Tensor:
        """A tensor with any contents, of the type and on the device of another one."""
        size = prod(shape) * like.element_size()
        if like.device.type != "cpu" or size < LARGE_BYTES or torch.compiler.is_compiling():
            return like.new_empty(shape)
        with self.lock:
            buffer = self.take(size)
            return torch.frombuffer(buffer, dtype=like.dtype, count=prod(shape)).view(shape)

    def take(self, size: int) -> mmap.mmap:
        """A buffer of *size* bytes or more that no tensor has."""
        waiting = [buffer for buffer in self.buffers if sys.getrefcount(buffer) == WAITING]
        fitting = [buffer for buffer in waiting if len(buffer) >= size]
        if fitting:
            return min(fitting, key=len)
        self.buffers = [buffer for buffer in self.buffers if buffer not in waiting]
        buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.buffers.append(buffer)
        return buffer
