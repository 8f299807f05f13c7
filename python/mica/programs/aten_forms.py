"""What of torch's, or of Python's, does what an op of a Program does."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import torch

SCALAR_OPS: dict[str, Callable[..., Any]] = {
    "mica.int_abs": abs,
    "mica.int_add": operator.add,
    "mica.int_ceil": math.ceil,
    "mica.int_floor": math.floor,
    "mica.int_floordiv": operator.floordiv,
    "mica.int_max": max,
    "mica.int_min": min,
    "mica.int_mod": operator.mod,
    "mica.int_mul": operator.mul,
    "mica.int_pow": operator.pow,
    "mica.int_round": round,
    "mica.int_sub": operator.sub,
    "mica.int_trunc": math.trunc,
    "mica.scalar_abs": abs,
    "mica.scalar_add": operator.add,
    "mica.scalar_cos": math.cos,
    "mica.scalar_div": operator.truediv,
    "mica.scalar_eq": operator.eq,
    "mica.scalar_exp": math.exp,
    "mica.scalar_floordiv": operator.floordiv,
    "mica.scalar_le": operator.le,
    "mica.scalar_log": math.log,
    "mica.scalar_log10": math.log10,
    "mica.scalar_log2": math.log2,
    "mica.scalar_lt": operator.lt,
    "mica.scalar_max": max,
    "mica.scalar_min": min,
    "mica.scalar_mod": operator.mod,
    "mica.scalar_mul": operator.mul,
    "mica.scalar_neg": operator.neg,
    "mica.scalar_pow": operator.pow,
    "mica.scalar_sin": math.sin,
    "mica.scalar_sqrt": math.sqrt,
    "mica.scalar_sub": operator.sub,
    "mica.scalar_tanh": math.tanh,
}

# Mica's own forms of operators of torch's: they keep something else.
OWN_FORMS = {
    "mica.lstm_layer": "aten.mkldnn_rnn_layer",
    "mica.lstm_layer_backward": "aten.mkldnn_rnn_layer_backward",
}

# Of an opaque operator's name, what isn't ATen's; the letters say which of its
# tensors have lazy bits, the words after them the strides of some.
FORM = re.compile(
    r"torch\.(?:writing\.)?(?:lazy\.([pcnb]+)\.)?(?:strides\.[px_\d]+\.)?"
)


BITS = {"p": "", "c": "conj", "n": "neg", "b": "conjneg"}


def overload_of(op: str) -> Any:
    """Torch's operator by the Program's name of it."""
    form = FORM.match(op)
    space, name, *overload = op[form.end() if form else 0 :].split(".")
    packet = getattr(getattr(torch.ops, space), name)
    return getattr(packet, overload[0] if overload else "default")


def as_torch(name: str, value: Any) -> Any:
    """An argument of a Program's op as torch takes it."""
    if not isinstance(value, str):
        return value
    if name == "device":
        return torch.device(value)
    if name in ("layout", "memory_format"):
        return getattr(torch, value)
    return value
