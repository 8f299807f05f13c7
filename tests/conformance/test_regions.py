"""Every operator of regions, in every dtype, held to torch in wide types."""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Callable

import pytest
import torch
from conformance import agreement
from torch import Tensor
from torch.nn import functional

from mica import _mica

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOATS = {
    "f64": torch.float64,
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
}
INTS = {
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
}
DTYPES = FLOATS | INTS | {"bool": torch.bool}
DOMAINS = {
    "kFloats": FLOATS,
    "kNumbers": FLOATS | INTS,
    "kBits": INTS | {"bool": torch.bool},
    "kAll": DTYPES,
}


def read_table() -> dict[str, tuple[int, str]]:
    """Each operator's number of operands and its domain."""
    text = (ROOT / "framework/op/region_op_list.h").read_text()
    text = text.split("define MICA_REGION_REDUCTIONS")[0]
    entries = re.findall(r'X\(\w+, "(\w+)", (\d), (k\w+)\)', text)
    return {name: (int(arity), domain) for name, arity, domain in entries}


TABLE = read_table()


def remainder(a: Tensor, b: Tensor) -> Tensor:
    rest = torch.fmod(a, b)
    return torch.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)


def lerp(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    way = b - a
    return torch.where(c.abs() < 0.5, a + c * way, b - way * (1 - c))


# Of operands in float64, int64 or bool, which hold what the dtype holds.
WANTED: dict[str, Callable[..., Tensor]] = {
    "cast": lambda a: a,
    "neg": lambda a: -a,
    "abs": torch.abs,
    "sign": lambda a: (a > 0).to(a.dtype) - (a < 0).to(a.dtype),
    "relu": torch.relu,
    "square": lambda a: a * a,
    "cube": lambda a: a * a * a,
    "not": torch.bitwise_not,
    "reciprocal": lambda a: 1 / a,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda a: functional.gelu(a, approximate="tanh"),
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "remainder": remainder,
    "floor_div": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "tanh_backward": lambda a, b: a * (1 - b * b),
    "sigmoid_backward": lambda a, b: a * (1 - b) * b,
    "where": lambda a, b, c: torch.where(a.bool(), b, c),
    "add_scaled": lambda a, b, c: a + c * b,
    "sub_scaled": lambda a, b, c: a - c * b,
    "lerp": lerp,
    "addcmul": lambda a, b, c, d: a + d * b * c,
    "addcdiv": lambda a, b, c, d: a + d * b / c,
}
# Whose value near 0 is a difference of larger ones.
CANCELS = {"tanh_backward", "sigmoid_backward", "add_scaled", "sub_scaled"}
CANCELS |= {"lerp", "addcmul", "addcdiv", "lgamma", "digamma", "gelu"}
CANCELS |= {"gelu_tanh"}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, math.inf, -math.inf, math.nan]


def operands(dtype: torch.dtype, arity: int) -> list[Tensor]:
    """Random numbers and all pairs of special ones, in two dims."""
    torch.manual_seed(arity)
    if dtype == torch.bool:
        return [torch.rand(9, 41) < 0.5 for _ in range(arity)]
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        high = min(info.max, 2**31)
        low = max(info.min, -high)
        return [
            torch.randint(low, high, (9, 41)).to(dtype) for _ in range(arity)
        ]
    made = [torch.randn(9, 41, dtype=torch.float64) * 3 for _ in range(arity)]
    count = len(SPECIAL)
    for i, x in enumerate(made):
        special = torch.tensor(SPECIAL, dtype=torch.float64)
        pairs = (
            special.repeat(count) if i % 2 else special.repeat_interleave(count)
        )
        x.view(-1)[: count * count] = pairs
    return [x.to(dtype) for x in made]


def wanted(name: str, dtype: torch.dtype, feeds: list[Tensor]) -> Tensor:
    wide = [x.double() if dtype.is_floating_point else x.long() for x in feeds]
    if dtype == torch.bool:
        wide = feeds
    function = WANTED.get(name) or getattr(torch, name)
    return function(*wide)


def is_near(name: str, got: Tensor, want: Tensor, dtype: torch.dtype) -> bool:
    if not dtype.is_floating_point or want.dtype == torch.bool:
        return torch.equal(got, want.to(got.dtype))
    unit = torch.finfo(dtype).eps
    rounded = want.to(dtype)
    absolute = unit * 16 if name in CANCELS else torch.finfo(dtype).tiny
    return torch.allclose(
        got.double(),
        torch.where(rounded.isinf(), rounded.double(), want),
        rtol=unit * 8,
        atol=absolute,
        equal_nan=True,
    )


@pytest.mark.parametrize(
    "name, kind",
    [
        (name, kind)
        for name, (_, domain) in TABLE.items()
        for kind in DOMAINS[domain]
    ],
)
def test_operator(name: str, kind: str) -> None:
    dtype = DTYPES[kind]
    arity, _ = TABLE[name]
    feeds = operands(dtype, arity)
    want = wanted(name, dtype, feeds)
    result = "bool" if want.dtype == torch.bool else kind
    shape = ",".join(map(str, want.shape))
    inputs = ", ".join(f"%x{i}: {kind}[{shape}]" for i in range(arity))
    names = ", ".join(f"%x{i}" for i in range(arity))
    refs = " ".join(f"%{i}" for i in range(arity))
    program = _mica.Program.parse(
        f"program @one({inputs}) {{\n"
        f'  %y = mica.elementwise([{names}], "{name}.{kind} {refs} -> $0") '
        f": {result}[{shape}]\n  return %y\n}}\n"
    )
    for executor, make in agreement.EXECUTORS.items():
        named = {f"x{i}": x for i, x in enumerate(feeds)}
        (got,) = make().run(program, named, {}, [])
        assert got.dtype == DTYPES[result]
        assert is_near(name, got, want, dtype), f"{executor}: {got} {want}"


@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_cast(source: str, to: str) -> None:
    x = operands(DTYPES[source], 1)[0]
    if x.is_floating_point():
        # What C++ leaves undefined isn't compared.
        limit = 100 if to in INTS else 6e4
        x = x.nan_to_num(0, 0, 0).clamp(0 if to == "u8" else -limit, limit)
    program = _mica.Program.parse(
        f"program @one(%x: {source}[9,41]) {{\n"
        f'  %y = mica.elementwise([%x], "cast.{to} %0 -> $0") : {to}[9,41]\n'
        "  return %y\n}\n"
    )
    for executor, make in agreement.EXECUTORS.items():
        (got,) = make().run(program, {"x": x}, {}, [])
        assert torch.equal(got, x.to(DTYPES[to])), executor


PLACES = {
    "row": lambda x: x[0],
    "column": lambda x: x[:, :1],
    "one": lambda x: x[:1, :1],
    "transposed": lambda x: x.t().contiguous().t(),
    "stepped": lambda x: torch.cat([x, x], 1)[:, ::2],
}


@pytest.mark.parametrize("kind", ["f32", "bf16", "i32", "bool"])
@pytest.mark.parametrize("place", PLACES)
def test_places(place: str, kind: str) -> None:
    """Operands that are broadcast, or lie in some other order."""
    a, b = operands(DTYPES[kind], 2)
    b = PLACES[place](b)
    dims = ",".join(map(str, b.shape))
    strides = ",".join(map(str, b.stride()))
    program = _mica.Program.parse(
        f"program @one(%a: {kind}[9,41], %b: {kind}[{dims}]{{{strides}}}) {{\n"
        f'  %y, %z = mica.elementwise([%a, %b], "maximum.{kind} %0 %1; '
        f'lt.{kind} %0 %1; where.{kind} $1 $0 %1 -> $2 $1") '
        f": {kind}[9,41], bool[9,41]\n  return %y, %z\n}}\n"
    )
    for executor, make in agreement.EXECUTORS.items():
        y, z = make().run(program, {"a": a, "b": b}, {}, [])
        less = a < b
        want = torch.where(less, torch.maximum(a, b), b.expand(9, 41))
        assert torch.equal(z, less), executor
        assert torch.allclose(
            y.double(), want.double(), 0, 0, equal_nan=True
        ), executor
