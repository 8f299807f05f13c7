"""Calls of every operator and layer that torch lists for its own tests.

torch's OpInfos and ModuleInfos make their samples of a few sizes that are names
of their modules (S, M, L: 5, 10 and 20 elements): these are multiplied, so that
the same entries give small, medium and large calls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_methods_invocations as methods
    from torch.testing._internal import common_modules as modules

# What draws numbers is wrapped for tests: the generator is seeded and put back.
vars(methods)["wrapper_set_seed"] = lambda op, *args, **kwargs: op(
    *args, **kwargs
)

DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f64": torch.float64,
    "i64": torch.int64,
}
# What the sizes of samples are multiplied by.
SCALES = {"small": 1, "medium": 4, "large": 16}
MOST_ELEMENTS = 1 << 20  # Of one tensor of a sample.
NUM_SAMPLES = 8  # Of an entry, of which the largest is taken.
SIZE_NAMES = ("XS", "S", "M", "L")

# What torch raises where it has no kernel, or a sample no library.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, ImportError)


def op_infos() -> list[Any]:
    """Returns torch's entries, one for each operator and variant."""
    return list(methods.op_db)


class TooLarge(ValueError):
    """A sample has a tensor of more than MOST_ELEMENTS."""


@dataclasses.dataclass
class Case:
    """One call.

    Attributes:
      name: The entry's.
      dtype, size: Keys of DTYPES and SCALES.
      layout: "dense", or "strided": no tensor is contiguous.
      fn: What is called with `args` and `kwargs`.
    """

    name: str
    dtype: str
    size: str
    layout: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def elements(self) -> int:
        """Returns how many elements the largest tensor has."""
        return max((t.numel() for t in tensors_of(self)), default=0)

    def shapes(self) -> list[tuple[int, ...]]:
        """Returns those of all tensors."""
        return [tuple(t.shape) for t in tensors_of(self)]


def tensors_of(case: Case) -> list[torch.Tensor]:
    """Returns the arguments' tensors, those of a layer left out."""
    leaves = pytree.tree_leaves((case.args, case.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _make_within(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*shape: Any, **kwargs: Any) -> Any:
        sizes = shape[0] if len(shape) == 1 else shape
        sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        if functools.reduce(lambda a, b: a * int(b), sizes, 1) > MOST_ELEMENTS:
            raise TooLarge(f"{sizes}")
        return make(*shape, **kwargs)

    return made


@contextlib.contextmanager
def scaled(scale: int) -> Iterator[None]:
    """Has samples made larger; those that would be too large raise."""
    within = _make_within(torch.testing.make_tensor)
    before: list[tuple[Any, str, Any]] = []
    for name, module in list(sys.modules.items()):
        if not name.startswith("torch.testing._internal"):
            continue
        for key in SIZE_NAMES:
            value = vars(module).get(key)
            if isinstance(value, int):
                before.append((module, key, value))
                setattr(module, key, value * scale)
        if vars(module).get("make_tensor") is torch.testing.make_tensor:
            before.append((module, "make_tensor", torch.testing.make_tensor))
            module.__dict__["make_tensor"] = within
    try:
        yield
    finally:
        for module, key, value in before:
            setattr(module, key, value)


def _largest(cases: Iterator[Case]) -> Case | None:
    """Returns the largest of the first cases; none if they can't be made."""
    best: Case | None = None
    torch.manual_seed(0)
    with contextlib.suppress(*REFUSALS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in itertools.islice(cases, NUM_SAMPLES):
            if case.elements() > MOST_ELEMENTS:
                continue
            if best is None or case.elements() > best.elements():
                best = case
    return best


def _op_samples(info: Any, dtype: str, size: str, grad: bool) -> Iterator[Case]:
    for sample in info.sample_inputs_func(info, "cpu", DTYPES[dtype], grad):
        yield Case(
            info.formatted_name,
            dtype,
            size,
            "dense",
            info.op,
            (sample.input, *sample.args),
            dict(sample.kwargs),
        )


def _module_samples(
    info: Any, dtype: str, size: str, grad: bool
) -> Iterator[Case]:
    inputs = info.module_inputs_func(
        info,
        device="cpu",
        dtype=DTYPES[dtype],
        requires_grad=grad,
        training=grad,
    )
    for one in inputs:
        made, call = one.constructor_input, one.forward_input
        if call is None:
            continue
        module = info.module_cls(*made.args, **made.kwargs)
        module = module.to(DTYPES[dtype]).train(grad)
        yield Case(
            info.name,
            dtype,
            size,
            "dense",
            module,
            call.args,
            dict(call.kwargs),
        )


def _as_leaf(leaf: Any) -> Any:
    """Returns a tensor that comes with a graph of its own without that."""
    if not isinstance(leaf, torch.Tensor) or leaf.is_leaf:
        return leaf
    return leaf.detach().requires_grad_()


def _strided(case: Case) -> Case | None:
    """Returns the case, no tensor contiguous; none if all are too small."""

    def spread(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
            return leaf
        if leaf.dim() < 1 or leaf.numel() < 2 or not leaf.is_leaf:
            return leaf
        wide = torch.stack((leaf.detach(), leaf.detach()), dim=-1)
        return wide[..., 0].requires_grad_(leaf.requires_grad)

    args, kwargs = pytree.tree_map(spread, (case.args, case.kwargs))
    other = dataclasses.replace(
        case, layout="strided", args=args, kwargs=kwargs
    )
    dense = [t for t in tensors_of(other) if t.layout == torch.strided]
    return None if all(t.is_contiguous() for t in dense) else other


def entries(only: str = "") -> Iterator[tuple[str, Any, bool]]:
    """Yields name, info and whether that is a layer's, by name."""
    ops = sorted(methods.op_db, key=lambda info: info.formatted_name)
    for info in ops:
        if info.name.startswith("jiterator") or only not in info.formatted_name:
            continue
        yield info.formatted_name, info, False
    for layer in sorted(modules.module_db, key=lambda layer: layer.name):
        if only in layer.name:
            yield layer.name, layer, True


def cases_of(
    info: Any, is_module: bool, dtype: str, sizes: list[str], grad: bool
) -> Iterator[Case]:
    """Yields an entry's calls of a dtype, dense and strided, by size.

    Nothing if torch has no kernel for it, or no gradient where `grad` is asked
    for. A size at which the samples are those of the size before is left out.
    """
    if is_module:
        takes = DTYPES[dtype] in info.dtypes
    else:
        takes = info.supports_dtype(DTYPES[dtype], "cpu")
        if grad:
            backward = info.supported_backward_dtypes("cpu")
            takes &= info.supports_autograd and DTYPES[dtype] in backward
    if not takes:
        return
    samples = _module_samples if is_module else _op_samples
    before: list[tuple[int, ...]] | None = None
    for size in sizes:
        with scaled(SCALES[size]):
            case = _largest(samples(info, dtype, size, grad))
        if case is None or case.shapes() == before:
            continue
        before = case.shapes()
        case.args, case.kwargs = pytree.tree_map(
            _as_leaf, (case.args, case.kwargs)
        )
        yield case
        if (strided := _strided(case)) is not None:
            yield strided
