"""Random programs over Python's floats: served as eager, whatever varies.

Numbers come from tensors, arguments and state; the program computes with them,
compares them, keeps them and passes them to operators. Each call brings other
ones, infinite and undefined ones among them. Both run ATen's kernels, so that
an outcome near its border is the same.
"""

from __future__ import annotations

import math
import random
import types
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import assert_served, report, run_text, same
from torch import Tensor

import mica

SEEDS_A_TEST = 12
CALLS = 12

# {u} and {w} are numbers at hand, {v} is a new one.
STATEMENTS = """\
{v} = x.sum().item()
{v} = x.mean().item()
{v} = x[0, 1].item()
{v} = y.max().item()
{v} = {u} * 0.5 + {w}
{v} = {u} - {w}
{v} = -{u}
{v} = {u} / 4
{v} = {u} * {u}
{v} = max({u}, {w})
{v} = min({u}, {w})
{v} = max({u}, 1)
{v} = min({u}, 0.5)
{v} = {u} if {u} > {w} else {w} * 0.5
{v} = STATE["t"]
STATE["t"] = {u}
{v} = P.rate
P.rate = P.rate * 0.9
if {u} > {w}: y = y + 1
if {u} <= {w}: y = y * {u}
if {u} == {w}: y = y - 2
if {u} != {w}: y = y + {w}
if {u} >= 1: y = y * 0.5
if not {u}: y = y + 3
if {u}: y = y + {u}
if 0 < {u} < 2: y = y * 2
if math.isnan({u}): y = torch.zeros_like(y)
if math.isinf({u}): y = y * 0
if math.isfinite({u}): y = y + 0.25
while {u} > 3: {u} = {u} / 2
y = y * {u}
y = y + {u}
y = y.clamp(min={u})
y = torch.where(y > {u}, y, x)
b = {u} < {w}; y = y + b
y = y + ({u} > 0)
assert not math.isnan({u}) or True
y = y * (2 if {u} > 0 and {w} > 0 else 3)
y = y + len([i for i in ({u}, {w}) if i > 0])
y = y + round({u}, 1) if abs({u}) < 100 else y
for k in ({u}, {w}):  y = y + (k if k > 0 else 0)
y = y.add({u}, alpha=2)
y = torch.relu(y) + x""".splitlines()

RESULTS = """\
y
(y, {u})
(y, {u} > {w})
[y, {u}, {w}]
{{'y': y, 'm': max({u}, {w})}}""".splitlines()

SCALES = (1, 1, 1, 5, 0.1, -1, 0, math.nan, math.inf, 1e4)
FIRST = (0.5, 0.75, 1.5, -2.5, 0.0, 3.25, math.nan)
SECOND = (0.5, 1.25, 0.5, 2.0, -1.0)


def _program(rng: random.Random) -> str:
    names = ["n", "m"]
    lines = ["def f(x, n, m):", "    y = x * 2"]
    for i in range(rng.randint(2, 8)):
        text = rng.choice(STATEMENTS).format(
            v=f"v{i}", u=rng.choice(names), w=rng.choice(names)
        )
        lines.append("    " + text)
        if text.startswith(f"v{i} ="):
            names.append(f"v{i}")
    result = rng.choice(RESULTS)
    lines.append(
        "    return " + result.format(u=rng.choice(names), w=rng.choice(names))
    )
    return "\n".join(lines) + "\n"


def _make(seed: int, source: str) -> dict[str, Any]:
    return run_text(
        f"<random numbers {seed}>",
        source,
        torch=torch,
        math=math,
        STATE={"t": 0.5},
        P=types.SimpleNamespace(rate=2.0),
    )


def _data(rng: random.Random, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, generator=generator)
    x = x if rng.random() < 0.8 else torch.ones(2, 3)
    return x * rng.choice(SCALES)


def _check(seed: int) -> int:
    """Returns how many calls were served."""
    rng = random.Random(seed)
    source = _program(rng)
    eager, served = _make(seed, source), _make(seed, source)
    compiled = mica.compile(served["f"], exact=True)
    for call in range(CALLS):
        x = _data(rng, call * 7 + seed)
        n, m = rng.choice(FIRST), rng.choice(SECOND)
        found = []
        for world, fn in ((eager, eager["f"]), (served, compiled)):
            try:
                result = fn(x.clone(), n, m)
            except ArithmeticError as error:
                result = (type(error).__name__, str(error))
            found.append([result, world["STATE"]["t"], world["P"].rate])
        try:
            same(found[1], found[0])
        except AssertionError as error:
            where = f"seed {seed}, call {call}, {n}, {m}:\n{source}"
            raise AssertionError(f"{where}{error}") from error
    return report(compiled).hits


@pytest.mark.parametrize("group", range(5))
def test_random_numbers(group: int) -> None:
    assert_served(_check, group * SEEDS_A_TEST, SEEDS_A_TEST)
