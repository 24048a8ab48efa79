"""Eigenvalues of products of the weights of checkpoints, by the command."""

import csv
import gzip
import re
from collections import defaultdict

import pytest
import torch
from make_checkpoints import PATHS, make

from fairseq_odeformers.checkpoints import Checkpoint
from odeformers.__main__ import main

PARTS = ("q", "k", "v", "out")  # of a self-attention
ARCHS = {  # by stack: depths with queries and keys, all depths, heads, and entries of a head
    "transformer_classifier": [("encoder", 2, 2, 2, 4)],
    "pcformer_lm": [("decoder", 2, 2, 2, 4)],
    "yuriiformer": [("encoder", 2, 2, 2, 4), ("decoder", 2, 2, 2, 4)],
    "ode_transformer": [("encoder", 2, 2, 2, 4), ("decoder", 2, 2, 2, 4)],
    "diffeq_transformer": [("encoder", 2, 2, 2, 4), ("decoder", 2, 2, 2, 4)],
    "transformer_modern": [("encoder", 2, 2, 2, 4), ("decoder", 2, 2, 2, 4)],
    "node_transformer": [("encoder", 2, 2, 2, 4)],
    "transevolve_classifier": [("encoder", 2, 4, 2, 4)],
    "transevolve_values": [("encoder", 2, 4, 2, 4)],
}


@pytest.fixture(scope="module")
def tables(data, tmp_path_factory):
    """The rows of each checkpoint; TransJect is left out."""
    out = tmp_path_factory.mktemp("spectra") / "out"
    paths = {arch: data / arch / "checkpoint.pt" for arch in (*ARCHS, "transject")}
    for arch, path in paths.items():
        path.parent.mkdir()
        if arch in PATHS:
            path.write_bytes(gzip.decompress(PATHS[arch].read_bytes()))
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(data)
            make("transevolve_classifier", ["--self-attention-value-projection"], str(path))
    found = map(str, paths.values())
    main(["analyse", "spectra", *found, "--data", str(data / "words"), "--out", str(out), "--cpu"])
    with open(out / "spectra.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {path.name for path in out.iterdir()} == {"index.md", "spectra.csv", "spectra.png"}
    assert {row["model"] for row in rows} == {*ARCHS}
    return paths, rows


@pytest.mark.parametrize("arch", ARCHS)
def test_every_head_of_every_depth_has_eigenvalues(arch, tables):
    _, rows = tables
    for stack, with_keys, depths, heads, entries in ARCHS[arch]:
        for product, points in (("QK", with_keys), ("OV", depths)):
            found = [
                row
                for row in rows
                if (row["model"], row["stack"], row["product"]) == (arch, stack, product)
            ]
            times = {float(row["t"]) for row in found}
            assert len(times) == points
            assert product == "QK" or times == {(k + 1) / depths for k in range(depths)}
            own = entries * (2 if product == "QK" and "transevolve" in arch else 1)  # d + d'
            assert len(found) == points * heads * own


def projections(arch, model, stack):
    """W_Q and W_K, or W_V and W_O, of each depth, by its number and the name of the product."""
    weights = {name: w.double() for name, w in model.state_dict().items() if name.startswith(stack)}
    if arch == "diffeq_transformer":
        attention = getattr(model, stack).layers[0].self_attn
        steps = zip(attention.qkv_proj.tensors(), attention.out_proj.tensors())
        for depth, ((qkv, _), (out, _)) in enumerate(steps):
            q, k, v = qkv.double().chunk(3)
            yield from (((depth, "QK"), (q, k)), ((depth, "OV"), (v, out.double())))
    elif arch.startswith("transevolve"):  # projects values by an option
        outs, values = (
            [w for name, w in weights.items() if name.endswith(f"self_attn_{part}_proj.weight")]
            for part in ("out", "value")
        )
        queries, keys = (
            [w for name, w in weights.items() if name.endswith(f"self_attn.{part}_proj.weight")]
            for part in "qk"
        )
        for depth, out in enumerate(outs):
            value = values[depth] if values else torch.eye(len(out)).double()
            yield (depth, "OV"), (value, out)
        for block, pair in enumerate(zip(queries, keys)):
            yield (block * len(outs) // len(queries), "QK"), pair
    else:
        names = [re.sub(r"q(_proj)?.weight$", "", name) for name in weights]
        prefixes = [name for name in names if name.endswith("self_attn.")]
        for depth, prefix in enumerate(prefixes):
            q, k, v, out = (
                next(weights[f"{prefix}{name}"] for name in both if f"{prefix}{name}" in weights)
                for both in ((f"{part}_proj.weight", f"{part}.weight") for part in PARTS)
            )
            yield from (((depth, "QK"), (q, k)), ((depth, "OV"), (v, out)))


@pytest.mark.parametrize("arch", ARCHS)
def test_eigenvalues_equal_the_full_products(arch, tables, data, monkeypatch):
    """The eigenvalues of a head are the nonzero eigenvalues of the full d x d product."""
    paths, rows = tables
    monkeypatch.chdir(data)
    model = Checkpoint.read(str(paths[arch])).build()[0]
    found = defaultdict(list)
    for row in rows:
        if row["model"] == arch:
            place = row["stack"], round(float(row["t"]), 3), row["product"], int(row["head"])
            found[place].append(complex(float(row["real"]), float(row["imaginary"])))
    for stack, _, depths, heads, _ in ARCHS[arch]:
        for (depth, product), (a, b) in projections(arch, model, stack):
            for head in range(heads):
                a_head = a.chunk(heads)[head]
                b_head = b.chunk(heads)[head] if product == "QK" else b.chunk(heads, 1)[head].T
                whole = torch.linalg.eigvals(b_head.T @ a_head)
                values = found.pop((stack, round((depth + 1) / depths, 3), product, head + 1))
                for value in values:
                    assert (whole - value).abs().min() < 1e-4
                assert sum(values) == pytest.approx(complex(whole.sum()), abs=1e-4)
    assert not found


def test_steps_of_diffeqformer_have_different_eigenvalues(tables):
    """Each step evaluates the functions of the weights at another time."""
    _, rows = tables
    largest = {}
    for row in rows:
        if row["model"] == "diffeq_transformer" and row["stack"] == "encoder":
            size = abs(complex(float(row["real"]), float(row["imaginary"])))
            largest[row["t"]] = max(largest.get(row["t"], 0), size)
    assert len({*largest.values()}) == len(largest) == 2
