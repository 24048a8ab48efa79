"""Reusable memory for large tensors on a CPU."""

import mmap
import weakref
from math import prod
from threading import Lock

import torch
from torch import Tensor

# The size in bytes from which the C library returns a freed tensor's memory to the kernel.
LARGE_BYTES = 2**25


class Workspace:
    """Buffers for large tensors on a CPU, each reused by one tensor after the other.

    When a large tensor is freed, the C library returns its memory to the kernel. The kernel then
    clears the memory of the next tensor page by page. This takes as long as reading the tensor
    several times. Here, the buffer of a freed tensor waits for the next tensor that fits into it.
    A tensor that fits into no waiting buffer gets a new one, and all waiting buffers are freed.

    Attributes:
        waiting: buffers that no tensor uses.
    """

    def __init__(self):
        self.waiting: list[mmap.mmap] = []
        self.lock = Lock()

    def empty(self, like: Tensor, *shape: int) -> Tensor:
        """Return an uninitialised tensor with the type and the device of another one."""
        size = prod(shape) * like.element_size()
        if like.device.type != "cpu" or size < LARGE_BYTES or torch.compiler.is_compiling():
            return like.new_empty(shape)
        with self.lock:
            buffer = self.take(size)
        view = memoryview(buffer)  # lives as long as the tensor and its views
        weakref.finalize(view, self.waiting.append, buffer)
        return torch.frombuffer(view, dtype=like.dtype, count=prod(shape)).view(shape)

    def take(self, size: int) -> mmap.mmap:
        """Return the smallest waiting buffer with at least *size* bytes, or a new one."""
        fitting = [buffer for buffer in self.waiting if len(buffer) >= size]
        if not fitting:
            self.waiting.clear()
            return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        buffer = min(fitting, key=len)
        self.waiting.remove(buffer)
        return buffer
