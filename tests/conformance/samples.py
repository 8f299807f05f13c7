"""Calls of ATen that torch's own OpInfo samples make, forward and backward."""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from collections.abc import Container, Iterator
from typing import Any

import torch
from conformance import direct_calls, one_op

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

# What every native op takes if eager does.
DTYPES = direct_calls.DTYPES

# Functions whose first samples don't reach all the ops that they call.
FEWEST_SAMPLES = {
    "nn.functional.interpolate": 60,
    "nn.functional.pad": 40,
    "nn.functional.scaled_dot_product_attention": 30,
}

# What torch raises where it has no kernel, or a sample no library.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, ImportError)


def functions() -> dict[str, list[Any]]:
    """OpInfos by the function that they are about."""
    by_name: dict[str, list[Any]] = {}
    for info in op_db:
        if info.name.startswith("jiterator"):
            continue  # Compiles for a GPU.
        by_name.setdefault(info.name, []).append(info)
    return dict(sorted(by_name.items()))


def samples(
    info: Any, dtype: torch.dtype, count: int | None, *, grad: bool = False
) -> list[Any]:
    """The first `count` sample inputs, or all; simplest first."""
    if count is not None:
        count = max(count, FEWEST_SAMPLES.get(info.name, 0))
    found: list[Any] = []
    torch.manual_seed(0)
    with contextlib.suppress(*REFUSALS):
        # Not info.sample_inputs(), which looks through the whole stack.
        make = info.sample_inputs_func(info, "cpu", dtype, grad)
        for sample in itertools.islice(make, count):
            found.append(sample)
    return found


def forward_calls(
    info: Any,
    dtype: torch.dtype,
    count: int | None,
    names: Container[str],
) -> Iterator[one_op.OneOp]:
    """The calls of samples, those left out that torch itself refuses.

    Every second sample's results lie as eager's do, the others row-major.
    """
    if not info.supports_dtype(dtype, "cpu"):
        return
    for index, sample in enumerate(samples(info, dtype, count)):
        run = functools.partial(
            info, sample.input, *sample.args, **sample.kwargs
        )
        with contextlib.suppress(*REFUSALS):
            yield from one_op.record(
                run, keeps_strides=index % 2 == 1, names=names
            )


def backward_calls(
    info: Any,
    dtype: torch.dtype,
    count: int | None,
    names: Container[str],
) -> Iterator[one_op.OneOp]:
    """The calls that differentiation of samples makes, the forward's too."""
    if not dtype.is_floating_point or not info.supports_autograd:
        return
    if dtype not in info.supported_backward_dtypes("cpu"):
        return
    for index, sample in enumerate(samples(info, dtype, count, grad=True)):
        run = functools.partial(_differentiate, info, sample)
        with contextlib.suppress(*REFUSALS):
            yield from one_op.record(
                run,
                keeps_strides=index % 2 == 1,
                with_grad=True,
                names=names,
            )


def all_calls(
    infos: list[Any], count: int | None, names: Container[str]
) -> Iterator[one_op.OneOp]:
    """All calls of `names` that samples of a function make, in all dtypes."""
    for info, dtype in itertools.product(infos, DTYPES):
        yield from forward_calls(info, dtype, count, names)
        yield from backward_calls(info, dtype, count, names)


def direct_call_ops(name: str) -> Iterator[one_op.OneOp]:
    """The calls listed for an op, those left out that torch itself refuses."""
    torch.manual_seed(0)
    for call in direct_calls.CALLS[name]():
        with contextlib.suppress(*REFUSALS):
            yield one_op.record_call(call)


def _differentiate(info: Any, sample: Any) -> None:
    """Runs a sample and the gradients of all its floating results."""
    results = info(sample.input, *sample.args, **sample.kwargs)
    if sample.output_process_fn_grad is not None:
        results = sample.output_process_fn_grad(results)
    tensors = [
        tensor
        for tensor in torch.utils._pytree.tree_leaves(results)
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad
    ]
    leaves = [
        leaf
        for leaf in torch.utils._pytree.tree_leaves(
            (sample.input, sample.args, sample.kwargs)
        )
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if tensors and leaves:
        gradients = [torch.randn_like(tensor) for tensor in tensors]
        torch.autograd.grad(tensors, leaves, gradients, allow_unused=True)
