"""Random programs over views: served as eager, in values and in memory.

Arguments share memory in several ways, and in others at the next call. The
program takes views of them, writes into them in place, and returns some. After
each call, all tensors are compared with those of an eager twin: values, sizes,
strides, offsets, which are one object and which share memory.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from e2e.capture.agreement_of_calls import assert_served, report, run_text, same
from torch import Tensor

import mica

SEEDS_A_TEST = 50
CALLS = 8

# {u} and {v} are tensors at hand, {n} is a new name.
STATEMENTS = """\
{u}.add_(1)
{u}.mul_({v}.sum() * 0.01)
{u}.copy_({v}.flatten()[:1].expand_as({u}))
{u}[..., 0] = 3
{u}[...] = {u} * 2
{u}.zero_()
{u} += 0.5
torch.add({u}, 1, out={u})
{n} = {u}.view(-1)
{n} = {u}.t() if {u}.dim() == 2 else {u}
{n} = {u}[0]
{n} = {u} + {v}.sum()
{n} = {u}.detach()
{n} = {u}.reshape(-1)
{n} = {u}.clone()
{n} = torch.cat([{u}.flatten(), {v}.flatten()])
{n} = {u}.expand(2, *{u}.shape)
{n} = {u}.contiguous()
{n} = {u}.unsqueeze(0)
{n} = torch.relu_({u}.clone())
{n} = {u}.flatten()[::2]
{n} = {u} if {u}.sum() > {v}.sum() else {v}
{n} = {u}.flatten().as_strided((2,), (1,), 0) if {u}.numel() > 2 else {u}
{n} = {u}.flatten().as_strided((2,), (1,), 1) if {u}.numel() > 2 else {u}
{n} = {u} + {u}.storage_offset()
{n} = torch.empty_like({u}).copy_({u})""".splitlines()


def _program(rng: random.Random) -> str:
    names = ["a", "b", "s", "w"]
    lines = ["def f(a, b):", "    s, w = STATE"]
    for i in range(rng.randint(2, 9)):
        text = rng.choice(STATEMENTS).format(
            u=rng.choice(names), v=rng.choice(names), n=f"v{i}"
        )
        lines.append("    " + text)
        if text.startswith(f"v{i} "):
            names.append(f"v{i}")
    results = [rng.choice(names) for _ in range(rng.randint(1, 4))]
    lines.append(f"    return [{', '.join(results)}]")
    return "\n".join(lines) + "\n"


def _arguments(kind: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(4, 6, generator=generator)
    other = torch.randn(4, 6, generator=generator)
    return [
        (base, other),
        (base, base),
        (base[:2], base[2:]),
        (base[:3], base[1:]),
        (base.t().contiguous().t(), other),
        (base[:, ::2], base[:, 1::2]),
        (base, base.view(4, 6)),
        (base[0], base[1]),
        (base, base[0]),
    ][kind]


def _make(seed: int, source: str) -> dict[str, Any]:
    state = (torch.full((4, 6), 0.5), torch.arange(6.0))
    name = f"<random memory {seed}>"
    return run_text(name, source, torch=torch, STATE=state)


def _form(tensors: list[Tensor]) -> list[Any]:
    known: dict[Any, int] = {}
    return [
        (
            known.setdefault(id(t), len(known)),
            known.setdefault(
                ("memory", t.untyped_storage().data_ptr()), len(known)
            ),
            t.storage_offset(),
            t.shape,
            t.stride(),
        )
        for t in tensors
    ]


def _check(seed: int) -> int:
    """Returns how many calls were served."""
    rng = random.Random(seed)
    source = _program(rng)
    eager, served = _make(seed, source), _make(seed, source)
    compiled = mica.compile(served["f"])
    kinds = [rng.choice([0, 0, *range(9)]) for _ in range(3)]
    kept = []  # What a call returned stays comparable while it lives.
    for call in range(CALLS):
        kind, chance = rng.choice(kinds), rng.random()
        found = []
        for world, fn in ((eager, eager["f"]), (served, compiled)):
            a, b = _arguments(kind, seed * 10 + call)
            if chance < 0.1:
                a = world["STATE"][0]
            elif chance < 0.15:
                b = world["STATE"][0][1:3]
            try:
                results = fn(a, b)
            except (RuntimeError, IndexError) as error:
                results = [torch.tensor(len(str(error)))]
            found.append([a, b, *world["STATE"], *results])
        kept.append(found)
        where = f"seed {seed}, call {call}, arguments {kind}:\n{source}"
        assert _form(found[0]) == _form(found[1]), where
        for want, got in zip(*found, strict=True):
            torch.testing.assert_close(
                got, want, rtol=1e-4, atol=1e-5, equal_nan=True, msg=where
            )
    return report(compiled).hits


@pytest.mark.parametrize("group", range(6))
def test_random_memory(group: int) -> None:
    assert_served(_check, group * SEEDS_A_TEST, SEEDS_A_TEST)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * 2 + x.storage_offset(),
        lambda x: torch.as_strided(x, (2,), (1,), 2) * 3,
        lambda x: x.as_strided((2,), (1,), x.storage_offset() + 1) + 1,
        lambda x: torch.as_strided_copy(x, (2,), (1,), 2) * 3,
        lambda x: torch.as_strided_scatter(x, torch.ones(2), (2,), (1,), 2),
        lambda x: x.as_strided((2,), (1,)).add_(1),
    ],
)
def test_offsets_in_storages(fn):
    compiled = mica.compile(fn)
    for offset in (0, 0, 0, 4, 4, 4, 6, 0, 1):
        mine, theirs = torch.arange(20.0), torch.arange(20.0)
        same(
            compiled(mine[offset : offset + 6]),
            fn(theirs[offset : offset + 6]),
        )
        same(mine, theirs)


def test_slices_of_one_tensor_are_one_record():
    data = torch.randn(64, 3)
    compiled = mica.compile(lambda x: x * 2 + 1)
    for i in range(8):
        batch = data[i * 8 : i * 8 + 8]
        same(compiled(batch), batch * 2 + 1)
    assert report(compiled).hits == 7
