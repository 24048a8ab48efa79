import torch

from fairseq_odeformers.models.transevolve import workspace
from fairseq_odeformers.models.transevolve.workspace import Workspace

LIKE = torch.zeros(1)
LARGE_ELEMENTS = workspace.LARGE_BYTES // LIKE.element_size()


def test_a_tensor_in_use_keeps_its_memory():
    """A view of a tensor, or what autograd has saved of it, keeps the memory as well."""
    space = Workspace()
    first = space.empty(LIKE, LARGE_ELEMENTS).fill_(1)
    view = first[3:]
    weight = torch.ones(1, requires_grad=True)
    saved = weight * space.empty(LIKE, 2, LARGE_ELEMENTS).fill_(2)
    del first
    space.empty(LIKE, LARGE_ELEMENTS).fill_(3)
    saved.sum().backward()
    assert (view == 1).all() and weight.grad == 4 * LARGE_ELEMENTS


def test_free_memory_is_reused():
    space = Workspace()
    place = space.empty(LIKE, 2, LARGE_ELEMENTS).data_ptr()
    assert space.empty(LIKE, LARGE_ELEMENTS).data_ptr() == place
    assert space.empty(LIKE, 2, LARGE_ELEMENTS).data_ptr() == place


def test_the_workspace_holds_at_most_the_peak_in_use():
    """Each step has two tensors of changing sizes, and tensors that are too small are released."""
    space, largest = Workspace(), 0
    for size in (1, 3, 2, 4, 1, 3, 5, 2):
        pair = [space.empty(LIKE, size, LARGE_ELEMENTS) for _ in range(2)]
        largest = max(largest, sum(tensor.nbytes for tensor in pair))
        del pair
        assert sum(map(len, space.waiting)) <= largest


def test_small_tensors_and_other_devices_use_torchs_memory():
    space = Workspace()
    assert space.empty(LIKE, 4, 5).shape == (4, 5)
    assert space.empty(LIKE.to("meta"), LARGE_ELEMENTS).is_meta
    assert not space.waiting
