"""Tests of the benchmark of all operators."""

import math
from typing import Any

import pytest
import torch
from torch.testing._internal import common_methods_invocations as methods

import bench_ops
import op_cases
import row_cases


def cases(
    name: str, sizes: tuple[str, ...] = ("small", "large"), grad: bool = False
) -> list[op_cases.Case]:
    (entry,) = [e for e in op_cases.entries(name) if e[0] == name]
    _, info, is_module = entry
    return list(op_cases.cases_of(info, is_module, "f32", [*sizes], grad))


def test_an_entry_gives_larger_calls_dense_and_not() -> None:
    found = cases("softmax")
    sizes = {(case.size, case.layout): case.elements() for case in found}
    assert len(sizes) == 4
    assert sizes["large", "dense"] > 50 * sizes["small", "dense"]
    (strided,) = op_cases.tensors_of(found[-1])
    assert found[-1].layout == "strided" and not strided.is_contiguous()


def test_sizes_are_as_they_were_afterwards() -> None:
    names: dict[str, Any] = vars(methods)
    make, size = names["make_tensor"], names["S"]
    with op_cases.scaled(3):
        assert names["S"] == 3 * size
        with pytest.raises(op_cases.TooLarge):
            names["make_tensor"]((1 << 12, 1 << 12), device="cpu")
    assert names["S"] == size and names["make_tensor"] is make


@pytest.mark.parametrize("name", ["softmax", "nn.Linear", "split"])
@pytest.mark.parametrize("grad", [False, True])
def test_rows(name: str, grad: bool) -> None:
    for case in cases(name, ("small",), grad):
        with torch.set_grad_enabled(grad):
            row = bench_ops.measure(case, grad)
        assert row is not None and "error" not in row
        assert row["difference"] < 1e-5 and row["graphs"] == 1
        assert row["ratio"] > 0 and row["steps"]


def test_differences_are_seen() -> None:
    a = torch.tensor([1.0, math.nan, math.inf])
    assert bench_ops.difference([a, 1], [a.clone(), 2]) == 0
    assert bench_ops.difference(a, torch.tensor([1.0, 2.0, math.inf])) > 1
    assert bench_ops.difference(a[:1], torch.tensor([2.0])) == 0.5
    assert bench_ops.difference(a[:1], a[:1].double()) == math.inf


def test_a_row_that_fails_is_told() -> None:
    row = {"name": "f", "dtype": "f32", "size": "s", "layout": "dense"}
    row["error"] = "wrong"
    assert "wrong" in bench_ops.text_of(row)
    assert bench_ops.summary([row])["errors"] == 1


@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_calls_on_rows_are_calls(dtype: str) -> None:
    refused = set()
    names = []
    for case in row_cases.cases([3, 500], dtype, grad=False):
        names.append((case.name, case.size))
        assert case.elements() <= row_cases.ELEMENTS
        try:
            with torch.no_grad():
                case.fn(*case.args)
        except op_cases.REFUSALS:
            refused.add(case.name)
    assert len(set(names)) == len(names) > 150
    # What has no integers.
    assert not refused if dtype == "f32" else len(refused) < 30
    assert ("gram", "rows of 500") not in names


def test_a_row_of_three() -> None:
    (case,) = row_cases.cases([3], "f32", grad=True, only="log_softmax")
    row = bench_ops.measure(case, grad=True)
    assert row is not None and row["graphs"] == 1
    assert row["difference"] < 1e-5 and row["size"] == "rows of 3"
