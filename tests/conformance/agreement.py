"""Runs a recorded call through Mica and says where eager's results differ."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from conformance import one_op

from mica import _mica

# Memory with any contents.
UNDEFINED = (
    "aten.empty.memory_format",
    "aten.empty_like",
    "aten.empty_strided",
    "aten.new_empty",
    "aten.new_empty_strided",
)

# Relative and absolute. What is further off has to be as near to the result in
# float64 as eager's is.
TOLERANCES = {
    torch.float64: (1e-7, 1e-9),
    torch.float32: (2e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}

EXECUTORS: dict[str, Callable[..., _mica.Executor]] = {
    "fast": functools.partial(_mica.Executor, "cpu", 1, 1, False, False, True),
    "oracle": functools.partial(
        _mica.Executor, "cpu", 1, 1, False, False, True, oracle=True
    ),
}


def _is_near(got: torch.Tensor, want: torch.Tensor) -> bool:
    relative, absolute = TOLERANCES.get(want.dtype, (0, 0))
    return torch.allclose(
        got, want, rtol=relative, atol=absolute, equal_nan=True
    )


def _is_as_exact(
    got: torch.Tensor, want: torch.Tensor, truth: torch.Tensor
) -> bool:
    """True if `got` errs at most twice as much as `want`, rounding aside.

    Sums in float32 may take their terms in another order than eager's do;
    16-bit floats are rounded once.
    """
    if not want.is_floating_point() or want.dtype == torch.float64:
        return False
    units = torch.finfo(want.dtype).eps * (8 if want.itemsize == 4 else 1)
    is_finite = want.isfinite()
    if not torch.equal(is_finite, got.isfinite()):
        return False
    if not _is_near(got[~is_finite], want[~is_finite]):
        return False
    got, want, truth = (
        tensor[is_finite].to(torch.float64) for tensor in (got, want, truth)
    )
    rounding = units * truth.abs().max()
    return bool(
        (got - truth).abs().max()
        <= 2 * (want - truth).abs().max() + rounding + 1e-12
    )


def _is_dense(tensor: torch.Tensor) -> bool:
    """True if it fills its memory, each element in a place of its own."""
    place = 1
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    for stride, size in sorted(pairs):
        if size != 1 and stride != place:
            return False
        place *= size
    return True


def _describe(got: torch.Tensor, want: torch.Tensor) -> str:
    try:
        torch.testing.assert_close(got, want, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return "differs"


def _places_in_order(
    op: one_op.OneOp, results: list[torch.Tensor]
) -> str | None:
    """Of sort and topk: the places hold the values, each place once."""
    values, places = results
    x = next(iter(op.feeds.values()))
    if x.dim() == 0:
        return None if int(places) == 0 else "the only place is 0"
    # Places differ along one axis; the sizes alone don't tell which.
    for dim in range(x.dim()):
        if places.numel() and int(places.max()) >= x.shape[dim]:
            continue
        if any(
            places.shape[i] != x.shape[i] for i in range(x.dim()) if i != dim
        ):
            continue
        ordered = places.sort(dim).values
        is_once = (ordered.diff(dim=dim) > 0).all()
        found = x.gather(dim, places)
        if is_once and torch.allclose(
            found.double(), values.double(), 0, 0, equal_nan=True
        ):
            return None
    return "the places don't hold the values"


def _difference(op: one_op.OneOp, index: int, got: torch.Tensor) -> str | None:
    want = op.wants[index]
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    # An Executor leaves out what lies between the elements of a result.
    if op.keeps_strides and want.numel() > 0 and _is_dense(want):
        pairs = zip(got.stride(), want.stride(), got.shape, strict=True)
        if any(a != b and size > 1 for a, b, size in pairs):
            return f"strides {got.stride()}, not {want.stride()}"
    if op.name in UNDEFINED or _is_near(got, want):
        return None
    if _is_as_exact(got, want, op.in_double()[index]):
        return None
    return _describe(got, want)


def disagreement(op: one_op.OneOp, program: _mica.Program) -> str | None:
    """Where Mica's results, fast or the reference's, are not eager's.

    Args:
      op: The call.
      program: Its Program.
    Returns:
      A sentence, or None if all is as it should be.
    """
    before = {name: one_op.copy_of(x) for name, x in op.feeds.items()}
    for kind, make in EXECUTORS.items():
        results = make().run(program, op.feeds, {}, [])
        if len(results) != len(op.wants):
            return f"{kind}: {len(results)} results, not {len(op.wants)}"
        is_tied = op.name in ("aten.sort", "aten.sort.stable", "aten.topk")
        found: str | None = None
        for index, got in enumerate(results):
            if is_tied and index == 1:
                found = _places_in_order(op, results)
            else:
                found = _difference(op, index, got)
            if found is not None:
                return f"{kind}, result {index}: {found}"
        for name, x in op.feeds.items():
            if not one_op.has_same_bytes(x, before[name]):
                return f"{kind}: wrote its operand {name}"
    return None


def parse(op: one_op.OneOp) -> tuple[_mica.Program | None, str]:
    """The Program, or None and why Mica leaves the call to ATen."""
    try:
        return _mica.Program.parse(op.text), ""
    except NotImplementedError as error:
        return None, str(error)


def registered() -> dict[str, Any]:
    """Schemas of all native ops, by name."""
    return dict(_mica.registered_ops())
