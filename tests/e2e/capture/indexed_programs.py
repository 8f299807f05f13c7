"""Random modules that index tensors with numbers that vary."""

from __future__ import annotations

import random
from typing import Any

import torch

NUMBERS = (
    *("i", "j", "i + 1", "-i - 1", "self.k", "self.k - 1", "int(t.item())"),
    *("-1", "2", "min(i, 3)", "i // 2", "(i + j) % 4"),
)
SLICES = (
    *("i:i + 1", "j:j + 2", "self.k:self.k + 1", "i + 1:i + 3", ":", "1:3"),
    *(":2", "-2:", "::2", "1:", ":", ":-1", "i:", ":j", "i:i + 4:2"),
)
OTHERS = ("None", "...", "[0, 2]", "t.long()")
READ = ("a", "self.s", "y", "a.transpose(0, 1)", "self.s[1:]", "a.view(30, 4)")
WRITTEN = ("self.s", "y", "a", "y[1:]")
VALUES = ("1.5", "float(j)", "acc", "i", "b[0, 0]", "acc.sin()")
DTYPES = (
    *("float32", "float32", "float32", "float64"),
    *("bfloat16", "int64", "complex64"),
)


def make_key(draw: random.Random, most: int) -> str:
    items = []
    for _ in range(draw.randint(1, most)):
        kind = draw.random()
        pool = NUMBERS if kind < 0.55 else SLICES if kind < 0.88 else OTHERS
        items.append(draw.choice(pool))
    while items.count("...") > 1:
        items.remove("...")
    return ", ".join(items)


def make_statement(draw: random.Random) -> str:
    kind, source = draw.random(), draw.choice(READ)
    if kind < 0.35:
        return f"acc = acc + {source}[{make_key(draw, 3)}].float().sum()"
    if kind < 0.6:
        target, value = draw.choice(WRITTEN), draw.choice(VALUES)
        return f"{target}[{make_key(draw, 3)}] = {value}"
    if kind < 0.7:
        target = draw.choice(WRITTEN[:2])
        return f"{target}[{make_key(draw, 3)}] += {draw.choice(VALUES[2:4])}"
    if kind < 0.78:
        inner = draw.choice(("0", "-1", "...", "i"))
        return f"acc = acc * 2 + {source}[{make_key(draw, 2)}][{inner}].sum()"
    if kind < 0.86:
        number = draw.choice(("i", "j", "-i - 1"))
        return f"acc = acc + {source}.select(0, {number}).float().sum()"
    if kind < 0.92:
        return f"self.s[{make_key(draw, 2)}].mul_(0.5)"
    return draw.choice(
        ("self.k = (self.k + 1) % 4", "if i > 2: acc = acc + self.s[i].sum()")
    )


def make_module(draw: random.Random) -> tuple[str, torch.dtype]:
    """The text of a class M, and the dtype of its argument `a` and its state.

    `M()(a, b, t, i, j)` takes tensors of sizes [6, 5, 4], [5, 4] and [], the
    last one an index, and two ints.
    """
    dtype = draw.choice(DTYPES)
    body = [make_statement(draw) for _ in range(draw.randint(1, 5))]
    result = draw.choice(
        (
            "acc",
            "(acc, y)",
            "(acc, y[i])",
            "(self.s[j], acc)",
            "(acc, a[i] * 2)",
        )
    )
    text = (
        "class M(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.k = 1\n"
        "        rows = torch.arange(120).reshape(6, 5, 4)\n"
        f"        self.register_buffer('s', rows.to(torch.{dtype}))\n"
        "    def forward(self, a, b, t, i, j):\n"
        "        acc, y = a.abs().float().sum(), a.clone()\n        "
        + "\n        ".join(body)
        + f"\n        return {result}\n"
    )
    return text, getattr(torch, dtype)


def call(module: Any, a: torch.Tensor, *args: Any) -> list[Any]:
    """What a call gives, or raises, and leaves."""
    own = a.clone()
    try:
        result = module(own, *args)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        result = f"{type(error)}: {error}"
    return [result, own, module.s.clone(), module.k]
