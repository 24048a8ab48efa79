"""Each change of ``versions``, through the part of fairseq that is broken without it."""

import importlib.util
import io
import os
import re
import subprocess
import sys
import types
import zipfile
from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, options, utils
from fairseq.data import (
    LanguagePairDataset,
    TokenBlockDataset,
    bucket_pad_length_dataset,
    iterators,
)
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters
from fairseq.optim.fp16_optimizer import FP16Optimizer
from helpers import Task, checkpoint_of

from fairseq_odeformers.patches import versions

WEIGHT = {"weight": torch.arange(6.0).reshape(2, 3)}
SAFE_BY_DEFAULT = tuple(int(v) for v in torch.__version__.split(".")[:2]) >= (2, 6)


def test_checkpoints_of_other_versions_load(tmp_path, monkeypatch):
    """A checkpoint may contain a namespace, numpy's numbers and the meters of fairseq 0.6.

    The metrics of --eval-bleu are arrays and those of a regression scalars; the meters are pickled
    as members of fairseq.meters, now fairseq.logging.meters.
    """
    old_meters = [meters.AverageMeter(), meters.TimeMeter(), meters.StopwatchMeter()]
    extra = {"best": np.float64(0.5), "counts": np.array([3, 4]), "train_meters": old_meters}
    saved, path = checkpoint_of(WEIGHT, **extra), str(tmp_path / "checkpoint.pt")
    with monkeypatch.context() as old_names:
        for meter in old_meters:
            old_names.setattr(type(meter), "__module__", "fairseq.meters")
        checkpoint_utils.torch_persistent_save(saved, path)
    loaded = checkpoint_utils.load_checkpoint_to_cpu(path)
    assert loaded["cfg"]["model"] == saved["cfg"]["model"]
    assert torch.equal(loaded["model"]["weight"], saved["model"]["weight"])
    extra_state = loaded["extra_state"]
    assert extra_state["best"] == 0.5 and extra_state["counts"].tolist() == [3, 4]
    for ours, old in zip(extra_state["train_meters"], old_meters):
        assert type(ours) is type(old) and vars(ours) == vars(old)


@pytest.mark.skipif(not SAFE_BY_DEFAULT, reason="torch < 2.6 trusts every type")
@pytest.mark.parametrize("package", ["core", "_core"])
def test_numbers_of_numpy_1_and_2_load(tmp_path, package):
    """numpy 1 pickles its functions as members of numpy.core, numpy 2 of numpy._core."""
    saved = checkpoint_of(WEIGHT, best=np.float64(0.5), counts=np.array([3, 4]))
    path, file = tmp_path / "checkpoint.pt", io.BytesIO()
    torch.save(saved, file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("data.pkl"):
                content = re.sub(rb"numpy\._?core", f"numpy.{package}".encode(), content)
            new.writestr(name, content)
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(path))["extra_state"]
    assert loaded["best"] == 0.5 and loaded["counts"].tolist() == [3, 4]


@pytest.mark.parametrize("buckets", [1, 3, 8])
def test_lengths_are_divided_into_buckets(buckets):
    """Buckets end at lengths of examples.

    The function works without an argument that numpy dropped.
    """
    sizes = np.random.RandomState(1).randint(1, 100, 50)
    ends = bucket_pad_length_dataset.get_buckets(sizes, buckets)
    assert ends[-1] == sizes.max() and len(ends) == buckets
    assert set(ends) <= set(sizes)


def test_data_sets_work_without_numpys_compat(monkeypatch):
    """fairseq's data sets of text work on numpy 2, which lacks ``numpy.compat``."""
    monkeypatch.setattr(np, "compat", None, raising=False)  # restored afterwards
    monkeypatch.delattr(np, "compat")
    versions.add_numpy_compat()
    sizes = np.array([3, 2])
    texts = [torch.full((size,), 4) for size in sizes]
    blocks = TokenBlockDataset(texts, list(sizes), None, pad=1, eos=2, break_mode="eos")
    assert [len(block) for block in blocks] == [3, 2]
    pairs = LanguagePairDataset(texts, sizes, Task.make_dictionary(9), num_buckets=2)
    assert list(pairs.bucketed_num_tokens) == [3, 2]


@pytest.mark.parametrize("gpus, device", [(0, 0), (2, 1), (8, 3)])
def test_processes_of_torchrun_select_their_gpu(gpus, device, monkeypatch):
    """The fourth of four processes selects the right GPU of its machine, or none without GPUs."""
    launched = {"MASTER_ADDR": "a", "MASTER_PORT": "1", "WORLD_SIZE": "4", "RANK": "3"}
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    chosen = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    unset = ("tpu", "pipeline_model_parallel", "distributed_init_method")
    cfg = Namespace(**dict.fromkeys(unset), distributed_world_size=4)
    distributed_utils.infer_init_method(cfg)
    assert (cfg.distributed_rank, cfg.distributed_world_size, cfg.device_id) == (3, 4, device)
    assert cfg.distributed_init_method == "env://" and cfg.distributed_no_spawn
    assert chosen == [device] * (device > 0)


def test_half_precision_trains_on_a_cpu_beside_a_gpu(monkeypatch):
    """With --cpu, fairseq would look for the gradients on the GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    args = options.parse_args_and_arch(
        options.get_training_parser(),
        "data --arch transformer --cpu --fp16 --optimizer sgd --lr 1".split(),
    )
    weight = torch.nn.Parameter(torch.ones(3).half())
    optimizer = FP16Optimizer.build_optimizer(convert_namespace_to_omegaconf(args), [weight])
    optimizer.zero_grad()  # sets the loss scale
    optimizer.backward((2 * weight).sum())
    optimizer.step()
    assert weight.tolist() == [-1, -1, -1]


def test_gradients_are_flat_on_a_gpu():
    """fairseq's default stays where the model is on a GPU."""
    cfg = Namespace(common=Namespace(fp16_no_flatten_grads=False))
    for on_gpu in (True, False):
        parameters = [Namespace(is_cuda=on_gpu)]
        versions.build_optimizer(lambda *_: None, FP16Optimizer, cfg, parameters)
        assert cfg.common.fp16_no_flatten_grads is not on_gpu


def test_unknown_words_are_replaced_by_aligned_words():
    alignment = [(1, 0), (0, 1), (2, 2)]
    replaced = utils.replace_unk("a <unk> <unk>", "x y z", alignment, {"z": "c"}, "<unk>")
    assert replaced == "a x c"


@pytest.fixture
def fake_xm(monkeypatch):
    """A module with torch_xla 2.9's functions, as the third of eight TPUs sees them."""
    xla, core, xm, runtime = (
        types.ModuleType(name)
        for name in ("torch_xla", "torch_xla.core", "torch_xla.core.xla_model", "torch_xla.runtime")
    )
    xla.core, core.xla_model, xla.runtime = core, xm, runtime
    runtime.world_size, runtime.global_ordinal = lambda: 8, lambda: 2
    runtime.device_type = lambda: "TPU"
    xm.get_memory_info = {"xla:2": {"bytes_used": 3 << 20, "bytes_limit": 5 << 20}}.__getitem__
    for module in (xla, core, xm, runtime):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(distributed_utils, "xm", xm)
    monkeypatch.setattr(versions, "xm", xm)
    monkeypatch.setattr(distributed_utils, "_USE_XLA", True)
    return xm


def test_names_that_torch_xla_dropped_are_restored(fake_xm):
    versions.add_xla_names()
    assert distributed_utils.get_global_world_size() == 8
    assert distributed_utils.get_global_rank() == 2
    memory = versions.get_memory_info(fake_xm.get_memory_info, "xla:2")
    assert (memory["kb_free"], memory["kb_total"]) == (2 << 10, 5 << 10)


def test_xla_reports_the_hosts_memory_on_a_cpu(fake_xm):
    sys.modules["torch_xla.runtime"].device_type = lambda: "CPU"
    memory = versions.get_memory_info(fake_xm.get_memory_info, "xla:0")
    assert 0 < memory["kb_free"] < memory["kb_total"]


def test_xla_loses_no_prefetched_batch():
    """fairseq starts torch_xla's loader, which prefetches, before it asks for the count."""

    def load(itr):
        list(itr)
        return iterators.CountingIterator([3, 4, 5], start=itr.n, total=len(itr))

    batches = iterators.CountingIterator(range(6)).skip(3)
    assert list(versions.tpu_data_loader(load, batches)) == [3, 4, 5]


USE_XLA = """
import fairseq_odeformers
import torch_xla.core.xla_model as xm
from fairseq.distributed import utils

utils._USE_XLA = True
assert (utils.get_global_world_size(), utils.get_global_rank()) == (1, 0)
memory = xm.get_memory_info(xm.xla_device())
assert 0 < memory["kb_free"] < memory["kb_total"]
"""


@pytest.mark.skipif(not importlib.util.find_spec("torch_xla"), reason="needs torch_xla")
def test_restored_names_work_with_the_installed_torch_xla():
    env = {**os.environ, "PJRT_DEVICE": "CPU"}
    subprocess.run([sys.executable, "-c", USE_XLA], env=env, check=True)
