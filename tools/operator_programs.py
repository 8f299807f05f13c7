"""Programs of one operator each: at other sizes, under transforms, in place.

And into tensors that are given. For operator_sweep.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacrev, jvp, vjp, vmap
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from op_cases import REFUSALS

Tensor = torch.Tensor
State = dict[str, Tensor]
Inputs = tuple[Any, ...]

# Sizes of a dim, call by call.
SIZES = (2, 3, 5, 4, 7, 6, 3, 9)
NUM_CALLS = 4  # Of programs of one size.
MOST_ELEMENTS = 5000
NUM_SAMPLES = 16  # Of an entry, of which some are taken.

# Torch itself writes beyond its memory where operands are too short.
UNCHECKED = (
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_batch_norm_with_update",
    "lu_unpack",
    "_segment_reduce",
)
# What it leaves of a result as memory was.
UNFILLED = ("nn.functional.pad.circular", "empty", "new_empty")
# What entries raise: some assert that they are on a GPU.
ERRORS = (*REFUSALS, AssertionError)
# A result in the memory of an operand is anything, but of elementwise ones.
ALIASING = (
    "linalg",
    "linear",
    "lu_",
    "mm",
    "matmul",
    "pool",
    "nansum",
    "nanmean",
    "normal",
)


@dataclass
class Program:
    """What is called with a state of its own and with inputs.

    Attributes:
      name: Entry and kind, to run it alone.
      fn: Takes the state and the inputs.
      inputs: Makes new inputs for a call, by its number.
      num_calls: How many there are.
      state: Tensors that the program may read and write, copied for each world.
    """

    name: str
    fn: Callable[..., Any]
    inputs: Callable[[int], Inputs]
    num_calls: int = NUM_CALLS
    state: State = field(default_factory=dict)


def _tensors(value: Any) -> list[Tensor]:
    leaves = pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _loss(value: Any) -> Tensor:
    """Returns a real number that all tensors of a result have a part in.

    One that grows slowly: rounding stays what it is through its derivatives.
    """
    total = torch.zeros(())
    for t in _tensors(value):
        if t.is_complex():
            total = total + t.abs().square().log1p().sum()
        elif t.is_floating_point():
            total = total + t.square().log1p().sum()
    return total


def name_of(info: Any) -> str:
    """Returns an entry's, with its variant: "linalg.norm.subgradients"."""
    return ".".join(filter(None, (info.name, info.variant_test_name)))


def samples_of(info: Any, dtype: torch.dtype) -> list[Any]:
    """Returns two of an entry whose first operand is a tensor, not large.

    One from their middle and the last; fewer if there are no more.
    """
    if dtype not in info.dtypes or info.name in UNCHECKED:
        return []
    if name_of(info).startswith(UNFILLED):
        return []
    try:
        made = list(
            itertools.islice(info.sample_inputs("cpu", dtype), NUM_SAMPLES)
        )
    except ERRORS:
        return []
    small = [
        sample
        for sample in made
        if isinstance(sample.input, Tensor)
        and 0 < sample.input.numel() <= MOST_ELEMENTS
    ]
    last = len(small) - 1
    return [small[i] for i in sorted({len(small) // 2, last}) if 0 <= i <= last]


def _varied(sample: Any, call: int) -> Tensor:
    """Returns the first operand with other values at each call."""
    x: Tensor = sample.input.detach().clone()
    if x.is_floating_point() or x.is_complex():
        return x * (1 + 0.07 * call)
    return x if x.dtype == torch.bool else x + call % 2


# ---- other sizes ----


def of_sizes(info: Any, sample: Any) -> Iterator[Program]:
    """Yields programs whose operands are longer and shorter along a dim."""
    op, args, kwargs = info.op, sample.args, sample.kwargs

    def plain(_: State, x: Tensor, args: Any, kwargs: Any) -> Any:
        return op(x, *args, **kwargs)

    def tracked(_: State, x: Tensor, args: Any, kwargs: Any) -> Any:
        x = x.detach().requires_grad_()
        y = op(x, *args, **kwargs)
        loss = _loss([t for t in _tensors(y) if t.requires_grad])
        if not loss.requires_grad:
            return y
        return y, torch.autograd.grad(loss, x, allow_unused=True)

    for dim in range(min(3, sample.input.dim())):
        size = sample.input.shape[dim]

        def inputs(call: int, dim: int = dim, size: int = size) -> Inputs:
            places = torch.arange(SIZES[call]) % size

            def cut(value: Any) -> Any:
                if not isinstance(value, Tensor) or value.dim() <= dim:
                    return value
                if value.shape[dim] != size:
                    return value
                return value.detach().index_select(dim, places)

            others = pytree.tree_map(cut, (args, kwargs))
            return (cut(_varied(sample, call)), *others)

        for fn in (plain, tracked):
            name = f"sizes dim={dim} {fn.__name__}"
            yield Program(name, fn, inputs, len(SIZES))


# ---- transforms ----


def of_transforms(info: Any, sample: Any) -> Iterator[Program]:
    """Yields programs that differentiate, batch or compute again."""
    if not sample.input.is_floating_point():
        return

    def f(x: Tensor) -> Any:
        return info.op(x, *sample.args, **sample.kwargs)

    def loss(x: Tensor) -> Any:
        return _loss(f(x))

    def twice(x: Tensor) -> Any:
        x = x.detach().requires_grad_()
        (first,) = torch.autograd.grad(loss(x), x, create_graph=True)
        return first, torch.autograd.grad(
            first.square().log1p().sum(), x, allow_unused=True
        )

    def again(x: Tensor) -> Any:
        x = x.detach().requires_grad_()
        y: Any = checkpoint(loss, x, use_reentrant=False)
        y.backward()
        return y, x.grad

    def dual(x: Tensor) -> Any:
        with forward_ad.dual_level():
            ad: Any = forward_ad
            y = f(ad.make_dual(x, torch.ones_like(x)))
            return tuple(ad.unpack_dual(y))

    def tangent(g: Callable[[Tensor], Any], x: Tensor) -> Any:
        return jvp(g, (x,), (torch.ones_like(x),))

    programs: dict[str, Callable[[Tensor], Any]] = {
        "vmap": lambda x: vmap(f)(torch.stack([x, x * 0.5, x * 2])),
        "grad": lambda x: grad(loss)(x),
        "jvp": lambda x: tangent(f, x),
        "vjp": lambda x: vjp(loss, x)[1](torch.tensor(1.0)),
        "vmap of grad": lambda x: vmap(grad(loss))(torch.stack([x, x * 0.5])),
        "jvp of grad": lambda x: tangent(grad(loss), x),
        "grad of grad": twice,
        "checkpoint": again,
        "dual": dual,
    }
    most = 30
    if sample.input.numel() < most:
        programs["jacrev"] = lambda x: jacrev(f)(x)
        programs["hessian"] = lambda x: hessian(loss)(x)
    for name, program in programs.items():

        def fn(_: State, x: Tensor, program: Any = program) -> Any:
            return program(x)

        def inputs(call: int) -> Inputs:
            return (_varied(sample, call),)

        yield Program(f"transforms {name}", fn, inputs)


# ---- in place, and into what is given ----


def _in_place(info: Any, sample: Any) -> dict[str, Callable[..., Any]]:
    def change(x: Tensor) -> Any:
        return info.inplace_variant(x, *sample.args, **sample.kwargs)

    def argument(_: State, x: Tensor) -> Any:
        return change(x) is x

    def view(_: State, x: Tensor) -> Any:
        both = torch.stack([x, x])
        change(both[0])
        return both

    def state(of: State, _: Tensor) -> Any:
        change(of["x"])
        return of["x"] + 0

    def column(_: State, x: Tensor) -> Any:
        part = x[..., :1] if x.dim() else x
        change(part)
        return part.sum()

    def turned(_: State, x: Tensor) -> Any:
        change(x.t() if x.dim() == 2 else x)
        return x

    return {
        "in place": argument,
        "of a view": view,
        "of the state": state,
        "of a column": column,
        "of a turned one": turned,
    }


def _into(
    info: Any, sample: Any, like: Tensor
) -> dict[str, Callable[..., Any]]:
    def put(x: Tensor, out: Tensor) -> Any:
        return info.op(x, *sample.args, out=out, **sample.kwargs)

    def new(_: State, x: Tensor) -> Any:
        out = torch.zeros_like(like)
        return put(x, out) is out, out

    def empty(_: State, x: Tensor) -> Any:
        out = torch.empty(0, dtype=like.dtype)
        put(x, out)
        return out

    def state(of: State, x: Tensor) -> Any:
        put(x, of["out"])
        return of["out"].sum()

    def itself(_: State, x: Tensor) -> Any:
        put(x, x)
        return x

    programs: dict[str, Callable[..., Any]] = {
        "into a new one": new,
        "into an empty one": empty,
        "into the state": state,
    }
    if not any(word in info.name for word in ALIASING):
        programs["into itself"] = itself
    return programs


def of_forms(info: Any, sample: Any) -> Iterator[Program]:
    """Yields programs that write their operands, or what they are given."""
    programs: dict[str, Callable[..., Any]] = {}
    state = {"x": sample.input.detach()}
    if info.inplace_variant is not None:
        programs |= _in_place(info, sample)
    if info.supports_out:
        try:
            like = info.op(sample.input, *sample.args, **sample.kwargs)
        except ERRORS:
            like = None
        if isinstance(like, Tensor):
            programs |= _into(info, sample, like)
            state["out"] = torch.zeros_like(like)

    def inputs(call: int) -> Inputs:
        return (_varied(sample, call),)

    for name, fn in programs.items():
        yield Program(f"forms {name}", fn, inputs, state=state)


KINDS: dict[str, Callable[[Any, Any], Iterator[Program]]] = {
    "sizes": of_sizes,
    "transforms": of_transforms,
    "forms": of_forms,
}
