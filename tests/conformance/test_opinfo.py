"""Every op on torch's own samples: the oracle and the fast kernels.

torch's OpInfo database calls each function on arguments that its authors found
worth a test. Each call that reaches the dispatcher becomes a Program of one op
and is held to what eager made of it.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from conformance import one_op

from mica import _mica

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)
SAMPLES = 12  # Of each function and dtype; they come simplest first.

# Relative and absolute, for sums of some hundred terms.
TOLERANCES = {
    torch.float32: (1e-4, 5e-5),
    torch.float64: (1e-7, 1e-9),
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (2e-2, 2e-2),
}
# Memory with any contents.
UNDEFINED = (
    "aten.empty.memory_format",
    "aten.empty_like",
    "aten.empty_strided",
    "aten.new_empty",
    "aten.new_empty_strided",
)
# Where equal elements stood is not defined.
TIES = ("aten.sort", "aten.topk")
# Ops that the registry must know are found by these samples, at least.
FEWEST_OPS = 230

# What torch raises where it has no kernel, or a sample no library.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, ImportError)

EXECUTORS = {
    "fast": functools.partial(_mica.Executor, "cpu", 1, False, True),
    "oracle": functools.partial(
        _mica.Executor, "cpu", 1, False, True, oracle=True
    ),
}

seen: set[str] = set()
compared: collections.Counter[str] = collections.Counter()


def functions() -> list[tuple[str, list[Any]]]:
    """OpInfos by the function that they are about."""
    by_name: dict[str, list[Any]] = {}
    for info in op_db:
        if info.name.startswith("jiterator"):
            continue  # Compiles for a GPU.
        by_name.setdefault(info.name, []).append(info)
    return sorted(by_name.items())


def recorded(info: Any) -> Iterator[one_op.OneOp]:
    """The calls of all samples, those left out that torch itself refuses."""
    for dtype in DTYPES:
        if not info.supports_dtype(dtype, "cpu"):
            continue
        samples = []
        with contextlib.suppress(*REFUSALS):
            # Not info.sample_inputs(), which looks through the whole stack.
            make = info.sample_inputs_func
            samples = list(
                itertools.islice(make(info, "cpu", dtype, False), SAMPLES)
            )
        for sample in samples:
            run = functools.partial(
                info, sample.input, *sample.args, **sample.kwargs
            )
            with contextlib.suppress(*REFUSALS):
                yield from one_op.record(run)


def check(op: one_op.OneOp) -> None:
    """Compares one Program's results with eager's."""
    try:
        native = _mica.Program.parse(op.text)
    except LookupError:
        return  # An op that Mica leaves to ATen.
    except NotImplementedError:
        return  # A form of it that Mica leaves to ATen; the message says so.
    for name, make in EXECUTORS.items():
        results = make().run(native, op.feeds, {}, [])
        if op.name in UNDEFINED:
            continue
        for i, (got, want) in enumerate(zip(results, op.wants, strict=True)):
            if op.name in TIES and i == 1:
                continue
            relative, absolute = TOLERANCES.get(want.dtype, (0, 0))
            torch.testing.assert_close(
                got.contiguous(),
                want,
                rtol=relative,
                atol=absolute,
                equal_nan=True,
                msg=lambda text: f"{name}, result {i}: {text}\n{op.text}",  # noqa: B023
            )
    compared[op.name] += 1


@pytest.fixture(autouse=True)
def one_thread_and_seed() -> Iterator[None]:
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "infos", [pytest.param(infos, id=name) for name, infos in functions()]
)
def test_agrees_with_eager(infos: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in infos:
            for op in recorded(info):
                if op.text in seen:
                    continue
                seen.add(op.text)
                check(op)


def test_samples_reach_most_ops(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("keyword"):
        pytest.skip("only some of the functions ran")
    assert len(compared) >= FEWEST_OPS, sorted(compared)
