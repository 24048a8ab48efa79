"""Eigenvalues of products of the weights of checkpoints, by the command."""

import csv
import gzip

import pytest
import torch
from make_checkpoints import PATHS

from fairseq_odeformers.checkpoints import Checkpoint
from odeformers.__main__ import main

ARCHS = {  # depths with queries and keys, and depths, of each stack; heads; entries of a head
    "transformer_classifier": [("encoder", 2, 2, 2, 4)],
    "pcformer_lm": [("decoder", 2, 2, 2, 4)],
    "ode_transformer": [("encoder", 2, 2, 2, 4), ("decoder", 2, 2, 2, 4)],
    "diffeq_transformer": [("encoder", 2, 2, 2, 4), ("decoder", 2, 2, 2, 4)],
    "node_transformer": [("encoder", 2, 2, 2, 4)],
    "transevolve_classifier": [("encoder", 2, 4, 2, 4)],
}


@pytest.fixture(scope="module")
def tables(data, tmp_path_factory):
    """The rows of each checkpoint; TransJect is left out."""
    out = tmp_path_factory.mktemp("spectra") / "out"
    paths = {arch: data / arch / "checkpoint.pt" for arch in (*ARCHS, "transject")}
    for arch, path in paths.items():
        path.parent.mkdir()
        path.write_bytes(gzip.decompress(PATHS[arch].read_bytes()))
    found = map(str, paths.values())
    main(["analyse", "spectra", *found, "--data", str(data / "words"), "--out", str(out), "--cpu"])
    with open(out / "spectra.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {path.name for path in out.iterdir()} == {"index.md", "spectra.csv", "spectra.png"}
    assert {row["model"] for row in rows} == {*ARCHS}
    return paths, rows


@pytest.mark.parametrize("arch", ARCHS)
def test_every_head_of_every_depth_has_its_eigenvalues(arch, tables):
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


@pytest.mark.parametrize("product", ["QK", "OV"])
def test_they_are_those_of_the_whole_matrix(product, tables, data, monkeypatch):
    """Of a head of the second layer: d x d, of which all but d/H eigenvalues are zero."""
    paths, rows = tables
    monkeypatch.chdir(data)
    model = Checkpoint.read(str(paths["transformer_classifier"])).build()[0]
    attention = model.encoder.layers[1].self_attn
    head = slice(4, 8)
    if product == "QK":
        matrix = attention.q_proj.weight[head].T @ attention.k_proj.weight[head]
    else:
        matrix = attention.out_proj.weight[:, head] @ attention.v_proj.weight[head]
    expected = torch.linalg.eigvals(matrix.double()).detach()
    expected = expected[expected.abs() > 1e-6]
    of_head = ("transformer_classifier", product, "1.0", "2")
    keys = ("model", "product", "t", "head")
    found = [row for row in rows if tuple(row[key] for key in keys) == of_head]
    values = torch.tensor([complex(float(r["real"]), float(r["imaginary"])) for r in found])
    assert len(values) == len(expected)
    for value in values:
        assert (expected - value).abs().min() < 1e-4


def test_steps_of_diffeqformer_are_points_of_its_functions(tables):
    """Its weights differ from step to step."""
    _, rows = tables
    largest = {}
    for row in rows:
        if row["model"] == "diffeq_transformer" and row["stack"] == "encoder":
            size = abs(complex(float(row["real"]), float(row["imaginary"])))
            largest[row["t"]] = max(largest.get(row["t"], 0), size)
    assert len({*largest.values()}) == len(largest) == 2
