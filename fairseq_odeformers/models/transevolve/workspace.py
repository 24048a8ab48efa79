"""Memory of large tensors on a CPU that is used again."""

import mmap
import weakref
from math import prod
from threading import Lock

import torch
from torch import Tensor

# Bytes of a tensor that the C library returns to the kernel when it is freed.
LARGE_BYTES = 2**25


class Workspace:
    """Buffers for large tensors on a CPU, which serve one tensor after the other.

    The C library returns the memory of a large tensor to the kernel when the tensor is freed, and
    the kernel clears the next one page by page, which takes as long as reading it several times.
    Here the buffer of a tensor that is freed waits for the next tensor that fits in. If a tensor
    fits in none, a new buffer is made for it, and those that wait are freed.

    Attributes:
        waiting: the buffers that no tensor uses.
    """

    def __init__(self):
        self.waiting: list[mmap.mmap] = []
        self.lock = Lock()

    def empty(self, like: Tensor, *shape: int) -> Tensor:
        """A tensor with any contents, of the type and on the device of another one."""
        size = prod(shape) * like.element_size()
        if like.device.type != "cpu" or size < LARGE_BYTES or torch.compiler.is_compiling():
            return like.new_empty(shape)
        with self.lock:
            buffer = self.take(size)
        view = memoryview(buffer)  # lives as long as the memory of the tensor, and of its views
        weakref.finalize(view, self.waiting.append, buffer)
        return torch.frombuffer(view, dtype=like.dtype, count=prod(shape)).view(shape)

    def take(self, size: int) -> mmap.mmap:
        """The smallest buffer of *size* bytes or more that waits, or a new one."""
        fitting = [buffer for buffer in self.waiting if len(buffer) >= size]
        if not fitting:
            self.waiting.clear()
            return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        buffer = min(fitting, key=len)
        self.waiting.remove(buffer)
        return buffer
