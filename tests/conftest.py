import pytest


@pytest.fixture
def float64():
    import torch  # which the process that only hands out the tests does without

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
