"""Operators of one element each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from mica.imported.registry import operator
from mica.imported.wide import UNSIGNED, unsigned_quotient, widened

Tensor = torch.Tensor

_UNARY: dict[str, Callable[..., Any]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "HardSwish": F.hardswish,
    "IsNaN": torch.isnan,
    "Log": torch.log,
    "Mish": F.mish,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}
for _name, _call in _UNARY.items():
    operator(_name)(_call)


@operator("Add", numbers=(0, 1))
@widened
def add(a: Any, b: Any) -> Any:
    """Adds."""
    return a + b


@operator("Sub", numbers=(0, 1))
@widened
def sub(a: Any, b: Any) -> Any:
    """Subtracts."""
    return a - b


@operator("Mul", numbers=(0, 1))
@widened
def mul(a: Any, b: Any) -> Any:
    """Multiplies."""
    return a * b


@operator("Div", numbers=(0, 1))
def div(a: Any, b: Any) -> Any:
    """Divides; ints towards zero."""
    known = a if isinstance(a, torch.Tensor) else b
    if known.dtype.is_floating_point:
        return a / b
    if known.dtype in UNSIGNED:
        a, b = (torch.as_tensor(value).to(torch.int64) for value in (a, b))
        if known.dtype == torch.uint64:
            return unsigned_quotient(a, b).to(known.dtype)
        return torch.div(a, b, rounding_mode="floor").to(known.dtype)
    return torch.div(_tensor(a, known), b, rounding_mode="trunc")


def _tensor(value: Any, like: Tensor) -> Tensor:
    if isinstance(value, torch.Tensor):
        return value
    return torch.scalar_tensor(value, dtype=like.dtype)


@operator("Mod")
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """The rest, of the divisor's sign; of the dividend's with `fmod`."""
    if a.dtype in UNSIGNED:
        x, y = a.to(torch.int64), b.to(torch.int64)
        if a.dtype == torch.uint64:
            return (x - unsigned_quotient(x, y) * y).to(a.dtype)
        return torch.remainder(x, y).to(a.dtype)
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


@operator("Pow", numbers=(1,))
def power(base: Tensor, exponent: Any) -> Tensor:
    """A power, of the base's dtype."""
    dtype = base.dtype
    if isinstance(exponent, torch.Tensor) and exponent.dtype in UNSIGNED:
        exponent = exponent.to(torch.int64)
    if dtype in UNSIGNED:
        base = base.to(torch.int64)
    if dtype.is_floating_point and isinstance(exponent, torch.Tensor):
        exponent = exponent.to(dtype)
    return torch.pow(base, exponent).to(dtype)


def _compare(name: str, f: Callable[[Any, Any], Tensor]) -> None:
    @operator(name, numbers=(0, 1))
    @functools.wraps(f)
    def compare(a: Any, b: Any) -> Tensor:
        dtype = a.dtype if isinstance(a, torch.Tensor) else b.dtype
        if dtype in UNSIGNED:
            a, b = (torch.as_tensor(v).to(torch.int64) for v in (a, b))
            if dtype == torch.uint64:
                a, b = a ^ -(2**63), b ^ -(2**63)
        return f(a, b)

    compare.__name__ = name


_compare("Equal", lambda a, b: a == b)
_compare("Greater", lambda a, b: a > b)
_compare("GreaterOrEqual", lambda a, b: a >= b)
_compare("Less", lambda a, b: a < b)
_compare("LessOrEqual", lambda a, b: a <= b)


@operator("And")
def logical_and(a: Tensor, b: Tensor) -> Tensor:
    """True where both are."""
    return torch.logical_and(a, b)


@operator("Or")
def logical_or(a: Tensor, b: Tensor) -> Tensor:
    """True where any is."""
    return torch.logical_or(a, b)


@operator("Xor")
def logical_xor(a: Tensor, b: Tensor) -> Tensor:
    """True where one is."""
    return torch.logical_xor(a, b)


@operator("BitwiseNot")
@widened
def bitwise_not(x: Tensor) -> Tensor:
    """Bits that it hasn't."""
    return ~x


@operator("BitwiseAnd")
@widened
def bitwise_and(a: Tensor, b: Tensor) -> Tensor:
    """Bits that both have."""
    return a & b


@operator("BitwiseOr")
@widened
def bitwise_or(a: Tensor, b: Tensor) -> Tensor:
    """Bits that any has."""
    return a | b


@operator("BitwiseXor")
@widened
def bitwise_xor(a: Tensor, b: Tensor) -> Tensor:
    """Bits that one has."""
    return a ^ b


@operator("BitShift")
def bit_shift(x: Tensor, by: Tensor, *, direction: str) -> Tensor:
    """Bits moved; none from beyond the dtype's."""
    bits = x.dtype.itemsize * 8
    wide = x.to(torch.int64)
    amount = by.to(torch.int64)
    inside = (amount >= 0) & (amount < bits)
    amount = torch.where(inside, amount, 0)
    if direction == "LEFT":
        moved = wide << amount
    elif x.dtype == torch.uint64:
        mask = torch.where(amount == 0, -1, (1 << (64 - amount)) - 1)
        moved = (wide >> amount) & mask
    else:
        moved = wide >> amount
    rest: Any = 0
    if direction != "LEFT" and x.dtype.is_signed:
        rest = torch.where(wide < 0, -1, 0)  # The sign's bits.
    return torch.where(inside, moved, rest).to(x.dtype)


@operator("Where", numbers=(1, 2))
def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    """Chooses."""
    return torch.where(condition, a, b)


@operator("IsInf")
def is_inf(
    x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1
) -> Tensor:
    """True where a number is infinite, with one of the signs asked for."""
    if detect_negative and detect_positive:
        return torch.isinf(x)
    if detect_positive:
        return x == float("inf")
    if detect_negative:
        return x == -float("inf")
    return torch.zeros_like(x, dtype=torch.bool)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """F.elu."""
    return F.elu(x, alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """F.celu."""
    return F.celu(x, alpha)


@operator("Selu")
def selu(
    x: Tensor,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Tensor:
    """F.selu, with constants of the node's own."""
    return gamma * torch.where(x > 0, x, alpha * (torch.exp(x) - 1))


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """F.leaky_relu."""
    return F.leaky_relu(x, alpha)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """A slope of its own below zero."""
    if x.dtype in UNSIGNED:
        return x  # Nothing is below zero.
    return torch.where(x < 0, x * slope, x)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """What is greater than alpha."""
    return torch.where(x > alpha, x, 0.0)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """A line, cut off at 0 and 1."""
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        return F.hardsigmoid(x)
    return torch.clamp(alpha * x + beta, 0.0, 1.0)


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """What is beyond lambd, moved by the bias towards zero."""
    low = torch.where(x < -lambd, (x + bias).to(x.dtype), 0)
    return torch.where(x > lambd, (x - bias).to(x.dtype), low).to(x.dtype)


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """F.gelu."""
    return F.gelu(x, approximate=approximate)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """F.silu, with a slope."""
    if alpha == 1.0:
        return F.silu(x)
    return x * torch.sigmoid(alpha * x)
