#!/usr/bin/env python3
"""Do ONNX's own tests of operators come out right through Mica?

    .venv/bin/python tools/onnx_node_tests.py --json
    .venv/bin/python tools/onnx_node_tests.py --only test_resize

The package onnx brings a small model for each operator and each of its ways,
with inputs and the outputs that it wants. Each model is imported, compiled and
called three times; all three results have to be right, by the test's own
tolerance. Tests of types that torch doesn't compute with, and of other domains,
are left out by the rules below. The last line with --json is one JSON object:
`passed`, `failed` (names with reasons), `served` (tests of which Mica served
both later calls), `one_graph` (all of that with one graph), and `left_out`, a
number for each rule.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

import mica

NUM_CALLS = 3
# What leaves a test out: a part of a type's name, or a domain.
TYPES = (
    "STRING",
    "COMPLEX",
    "FLOAT8",
    "FLOAT4",
    "INT4",
    "INT2",
)
DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training")


@dataclass
class Counts:
    """Of a run."""

    passed: int = 0
    served: int = 0
    one_graph: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    not_served: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


def _elements(kind: Any) -> Iterator[int]:
    """The element types in a TypeProto."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        yield getattr(kind, which).elem_type
    elif which in ("sequence_type", "optional_type"):
        yield from _elements(getattr(kind, which).elem_type)


def _all_elements(model: Any) -> Iterator[int]:
    """The element types of a model's values, and what it casts to."""
    graph = model.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield from _elements(value.type)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype"):
                yield attribute.i
            if attribute.HasField("t"):
                yield attribute.t.data_type


def rule_against(model: Any) -> str | None:
    """The rule that leaves a model out; None if none does."""
    import onnx

    for node in model.graph.node:
        if node.domain in DOMAINS:
            return str(node.domain)
    names = {number: n for n, number in onnx.TensorProto.DataType.items()}
    found = {names.get(element, "") for element in _all_elements(model)}
    for rule in TYPES:
        if any(rule in name for name in found):
            return rule
    return None


def to_torch(value: Any) -> Any:
    """An input of a test as what a module takes."""
    if value is None:
        return None
    if isinstance(value, list):
        return [to_torch(item) for item in value]
    if hasattr(value, "SerializeToString"):
        from onnx import numpy_helper

        value = numpy_helper.to_array(value)
    array = np.array(value)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def difference(want: Any, got: Any, rtol: float, atol: float) -> str | None:
    """How an output differs from what a test wants; None if it doesn't."""
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{got!r}, not a list of {len(want)}"
        for a, b in zip(want, got, strict=True):
            told = difference(a, b, rtol, atol)
            if told is not None:
                return told
        return None
    if want is None or got is None:
        return None if want is got else f"{got!r}, not {want!r}"
    a = to_torch(want)
    for what in ("dtype", "shape"):
        if getattr(a, what) != getattr(got, what):
            return f"{what} {getattr(got, what)}, not {getattr(a, what)}"
    x, y = (t.detach().to(torch.float64).numpy() for t in (a, got))
    if np.allclose(y, x, rtol, atol, equal_nan=True):
        return None
    return f"{y.flatten()[:4].tolist()}, not {x.flatten()[:4].tolist()}"


def run(test: Any, counts: Counts) -> None:
    """Runs one test, and counts."""
    compiled: Any = mica.compile(mica.from_onnx(test.model))
    for inputs, wanted in test.data_sets:
        for number in range(NUM_CALLS):
            with torch.no_grad():
                result = compiled(*[to_torch(value) for value in inputs])
            made = result if isinstance(result, tuple) else (result,)
            if len(wanted) == 1 and not isinstance(result, tuple):
                made = (result,)
            for place, (want, got) in enumerate(zip(wanted, made, strict=True)):
                told = difference(want, got, test.rtol, test.atol)
                if told is not None:
                    counts.failed[test.name] = (
                        f"call {number}, output {place}: {told}"
                    )
                    return
    counts.passed += 1
    explained = mica.explain(compiled)
    if explained.hits >= (NUM_CALLS - 1) * len(test.data_sets):
        counts.served += 1
        counts.one_graph += len(explained.graphs) == 1
    else:
        reasons = [str(reason) for reason in explained.refusals]
        counts.not_served[test.name] = "; ".join(reasons)


def tests(only: str, every: int) -> list[Any]:
    """The tests whose names have a part."""
    from onnx.backend.test.case.node import collect_testcases

    found = [test for test in collect_testcases(None) if only in test.name]
    return found[::every]


def run_all(only: str = "", every: int = 1) -> Counts:
    """Runs the tests; every n-th of those with a part of a name."""
    counts = Counts()
    for test in tqdm(tests(only, every), unit=" tests"):
        rule = rule_against(test.model)
        if rule is not None:
            counts.left_out[rule] += 1
            continue
        try:
            run(test, counts)
        except Exception as error:
            first = str(error).splitlines() or [""]
            counts.failed[test.name] = f"{type(error).__name__}: {first[0]}"
        mica.reset()
    return counts


def main() -> int:
    """Runs the tests; returns 1 if any is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of tests' names")
    parser.add_argument("--every", type=int, default=1, help="n-th tests")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    counts = run_all(arguments.only, arguments.every)
    for name, why in counts.failed.items():
        print(f"{name}: {why}")
    if arguments.json:
        print(json.dumps(vars(counts)))
    else:
        print(
            f"{counts.passed} passed, {len(counts.failed)} failed, "
            f"{counts.served} served, {counts.one_graph} in one graph, "
            f"{sum(counts.left_out.values())} left out by rule"
        )
    return int(bool(counts.failed))


if __name__ == "__main__":
    sys.exit(main())
