"""Random programs over Python's numbers: served as eager, whatever varies.

Numbers come from tensors, arguments and state; the program computes with them,
compares them, keeps them and passes them to operators. Each call brings other
ones, infinite and undefined ones among them. Both run ATen's kernels, so that
an outcome near its border is the same.
"""

from __future__ import annotations

import dataclasses
import functools
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
# What the programs may raise, for eager's reasons.
RAISED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
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
while 3 < {u} < 1e9: {u} = {u} / 2
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

# The same of ints: what arithmetic they have, and what takes them as they are.
INT_STATEMENTS = """\
{v} = (x > 0).sum().item()
{v} = int((x > 0.5).sum())
{v} = len(x) + {u}
{v} = x.shape[1] * {u}
{v} = {u} + {w}
{v} = {u} + 1
{v} = {u} - {w}
{v} = {u} * {w}
{v} = {u} * 300
{v} = -{u}
{v} = {u} // 3
{v} = {u} // {w} if {w} else 0
{v} = {u} % 4
{v} = {u} % -3
{v} = {u} ** 2
{v} = abs({u})
{v} = int({u})
{v} = int(float({u}) * 0.5)
{v} = round({u} / 3)
{v} = max({u}, {w})
{v} = min({u}, 2)
{v} = {u} if {u} > {w} else {w} + 1
{v} = {u} and {w}
{v} = {u} or 5
{v} = {u} & 3
{v} = {u} << 1
{v} = divmod({u}, 3)[1]
{v} = sum(i for i in ({u}, {w}))
{v} = sum([{u}, {w}, 1])
{v} = max(i for i in ({u}, {w}))
{v} = len({{{u}, {w}, 1}})
{v} = len({{{u}: 1, {w}: 2, 3: 3}})
{v} = [3, 1, 4, 1, 5, 9][{u} % 6]
{v} = (3, 1, 4)[{u} % 3]
{v} = len([0] * ({u} % 4))
{v} = len("ab" * ({u} % 4))
{v} = len(range({u}))
{v} = len(list(range(9))[:{u}])
{v} = len(str({u}))
{v} = len(f"{{{u}}}")
{v} = len("%d" % {u})
{v} = len("%d %d" % ({u}, 2))
{v} = len(str(({u}, 1)))
{v} = hash({u}) % 7
{v} = int.__add__({u}, 1)
{v} = ({u}).bit_length()
{v} = True + {u}
{v} = {u} + ({w} > 1)
{v} = int(({u}, 1) == (2, 1))
{v} = int([{u}] == [2])
{v} = int(({u}, 1) < (2, 5))
{v} = int({u} in (1, 2))
{v} = int(2 in [{u}, {w}])
{v} = int({u} is {w})
{v} = int(isinstance({u}, (int, float)))
{v} = {{1: 4, 2: 5}}.get({u}, 6)
{v} = 2 if any(i > 2 for i in ({u}, {w})) else 3
{v} = STATE["t"]
STATE["t"] = {u}
STATE["t"] += 1
STATE["t"] = (STATE["t"] + 1) % 5
{v} = P.rate
P.rate += 1
P.rate = P.rate + 2
if {u} > {w}: y = y + 1
if {u} == {w}: y = y - 2
if {u} == 2: y = y - 1
if {u} % 3 == 0: y = y * 1.5
if {u}: y = y + {u}
if not {u}: y = y + 3
if 0 < {u} < 4: y = y * 2
for i in range({u} % 4): y = y + i
while 3 < {u} < 1e9: {u} = {u} // 2
y = y * {u}
y = y + {u}
y = {u} - y
y = y / ({u} + 0.5)
y = y ** ({u} % 3)
y = y * 0.9 ** {u}
y = y * (1 - 0.9 ** {u})
y = y * math.cos({u} / 7)
y = y * math.exp(-{u} * {u} / 99)
y = y * math.log(1 + {u} * {u})
y = y * math.sqrt({u} * {u})
y = y.clamp(max={u})
y = y.add(x, alpha={u})
y = torch.add(y, 1, alpha={u})
y = torch.where(y > {u}, y, {u})
y = torch.where(y > 1, {u}, 2) + y
y = y + torch.full((2, 3), {u})
y = y + torch.full_like(y, {u})
y = y + torch.tensor({u})
y = y + torch.ones(2, 3, dtype=torch.int64) * {u}
y = y + (torch.ones(2, 3, dtype=torch.int64) + {u}) // 2
y = y + torch.arange({u} % 5).sum()
y = y + torch.arange(3) * {u}
y = y.sum({u} % 2, keepdim=True) + x
y = y.softmax(dim={u} % 2)
y = y.std({u} % 2, keepdim=True) + x
y = y + y[:{u}].sum()
y = y + y[{u} % 2]
y = y + y[..., {u} % 3, None]
y = y.roll({u}, 1)
y = y.flatten()[{u} % 6] + x
y = y + torch.zeros({u} % 3 + 1, 3).sum()
y = y.reshape([{u} % 2 + 1, -1]).sum() + x
y = torch.norm(y, 2, dim={u} % 2, keepdim=True) + x
y = y.masked_fill(x > 0, {u})
y = y.new_full((2, 3), {u}) + y
y = torch.relu(y) + x""".splitlines()

SCALES = (1, 1, 1, 5, 0.1, -1, 0, math.nan, math.inf, 1e4)


@dataclasses.dataclass(frozen=True)
class Kind:
    """What numbers the programs have."""

    statements: list[str]
    first: tuple[float, ...]
    second: tuple[float, ...]
    state: tuple[float, float]
    scales: tuple[float, ...] = SCALES


KINDS = {
    "floats": Kind(
        STATEMENTS,
        (0.5, 0.75, 1.5, -2.5, 0.0, 3.25, math.nan),
        (0.5, 1.25, 0.5, 2.0, -1.0),
        (0.5, 2.0),
    ),
    "ints": Kind(
        INT_STATEMENTS,
        (0, 1, 2, 3, 4, 5, 7, -2, 300, 2**60),
        (1, 2, 1, 3, 6, -1),
        (0, 2),
        SCALES[:6],
    ),
    "both": Kind(
        STATEMENTS + INT_STATEMENTS,
        (0, 1, 2, 3, 4, 5, 6),
        (0.5, 1.25, 2.0),
        (1, 2.0),
        SCALES[:6],
    ),
}


def _program(rng: random.Random, statements: list[str]) -> str:
    names = ["n", "m"]
    lines = ["def f(x, n, m):", "    y = x * 2"]
    for i in range(rng.randint(2, 8)):
        text = rng.choice(statements).format(
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


def _make(seed: int, source: str, state: tuple[float, float]) -> dict[str, Any]:
    return run_text(
        f"<random numbers {seed}>",
        source,
        torch=torch,
        math=math,
        STATE={"t": state[0]},
        P=types.SimpleNamespace(rate=state[1]),
    )


def _data(rng: random.Random, seed: int, scales: tuple[float, ...]) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, generator=generator)
    x = x if rng.random() < 0.8 else torch.ones(2, 3)
    return x * rng.choice(scales)


def _check(kind: Kind, seed: int) -> int:
    """Returns how many calls were served."""
    rng = random.Random(seed)
    source = _program(rng, kind.statements)
    eager, served = (
        _make(seed, source, kind.state),
        _make(seed, source, kind.state),
    )
    compiled = mica.compile(served["f"], exact=True)
    for call in range(CALLS):
        x = _data(rng, call * 7 + seed, kind.scales)
        n, m = rng.choice(kind.first), rng.choice(kind.second)
        found = []
        for world, fn in ((eager, eager["f"]), (served, compiled)):
            try:
                result = fn(x.clone(), n, m)
            except RAISED as error:
                result = (type(error).__name__, str(error))
            found.append([result, world["STATE"]["t"], world["P"].rate])
        try:
            same(found[1], found[0])
        except AssertionError as error:
            where = f"seed {seed}, call {call}, {n}, {m}:\n{source}"
            raise AssertionError(f"{where}{error}") from error
    return report(compiled).hits


@pytest.mark.parametrize("group", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_random_numbers(kind: str, group: int) -> None:
    check = functools.partial(_check, KINDS[kind])
    assert_served(check, group * SEEDS_A_TEST, SEEDS_A_TEST)
