import logging

import pytest


def pytest_collection_finish():
    """Tests import fairseq's commands, which set the root logger up to write to what stdout was."""
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)


@pytest.fixture
def float64():
    import torch  # which the process that only hands out the tests does without

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
