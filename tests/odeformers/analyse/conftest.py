"""Trained checkpoints for the tests of ``odeformers analyse``."""

import gzip

import pytest
from make_checkpoints import PATHS, write_splits

CHECKPOINTS = "transformer_classifier transject transevolve_fullff_2_prenorm transformer_prenorm"


@pytest.fixture(scope="module")
def trained(data):
    """A data set, and checkpoints by architecture; the folder of each has its name."""
    write_splits(data, valid=64, test=13)
    paths = {arch: data / arch / "checkpoint_last.pt" for arch in CHECKPOINTS.split()}
    for arch, path in paths.items():
        path.parent.mkdir()
        path.write_bytes(gzip.decompress(PATHS[arch].read_bytes()))
    return data / "words", paths
