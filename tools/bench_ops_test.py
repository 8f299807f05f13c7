"""Tests of the benchmark of all operators."""

import math

import pytest
import torch
from torch.testing._internal import common_methods_invocations as methods

import bench_ops
import op_cases


def cases(name: str, **options):
    (entry,) = [e for e in op_cases.entries(name) if e[0] == name]
    chosen = {"dtype": "f32", "sizes": ["small", "large"], "grad": False}
    return list(op_cases.cases_of(entry[1], entry[2], **chosen | options))


def test_an_entry_gives_larger_calls_dense_and_not():
    found = cases("softmax")
    sizes = {(case.size, case.layout): case.elements() for case in found}
    assert len(sizes) == 4
    assert sizes["large", "dense"] > 50 * sizes["small", "dense"]
    (strided,) = op_cases.tensors_of(found[-1])
    assert found[-1].layout == "strided" and not strided.is_contiguous()


def test_sizes_are_as_they_were_afterwards():
    make, size = methods.make_tensor, methods.S
    with op_cases.scaled(3):
        assert methods.S == 3 * size
        with pytest.raises(op_cases.TooLarge):
            methods.make_tensor((1 << 12, 1 << 12), device="cpu", dtype=float)
    assert methods.S == size and methods.make_tensor is make


@pytest.mark.parametrize("name", ["softmax", "nn.Linear", "split"])
@pytest.mark.parametrize("grad", [False, True])
def test_rows(name, grad):
    for case in cases(name, sizes=["small"], grad=grad):
        with torch.set_grad_enabled(grad):
            row = bench_ops.measure(case, grad)
        assert row is not None and "error" not in row
        assert row["difference"] < 1e-5 and row["graphs"] == 1
        assert row["ratio"] > 0 and row["steps"]


def test_differences_are_seen():
    a = torch.tensor([1.0, math.nan, math.inf])
    assert bench_ops.difference([a, 1], [a.clone(), 2]) == 0
    assert bench_ops.difference(a, torch.tensor([1.0, 2.0, math.inf])) > 1
    assert bench_ops.difference(a[:1], torch.tensor([2.0])) == 0.5
    assert bench_ops.difference(a[:1], a[:1].double()) == math.inf


def test_a_row_that_fails_is_told():
    row = {"name": "f", "dtype": "f32", "size": "s", "layout": "dense"}
    row["error"] = "wrong"
    assert "wrong" in bench_ops.text_of(row)
    assert bench_ops.summary([row])["errors"] == 1
