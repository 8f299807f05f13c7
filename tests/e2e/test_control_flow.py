"""Branches and loops in Programs that are text, against eager PyTorch."""

from __future__ import annotations

import pytest
import torch

import mica
from mica import _mica

# Power iteration, until the vector hardly changes or for `most` rounds; then
# the sign that a user would like: the first element isn't negative.
POWER = """program @power(%x: f32[n], %a: f32[n,n], %most: i64[]) {
  %zero = constant [0] : i64[]
  %far = constant [1.0] : f32[]
  %y, %d, %i = mica.while([%x, %far, %zero], [%a, %most]) : f32[n], f32[], \
i64[] @ "power.py":5
    cond(%x: f32[n], %d: f32[], %i: i64[], %a: f32[n,n], %most: i64[]) {
      %early = aten.lt.Tensor(%i, %most) : bool[] @ "power.py":5
      %moves = aten.gt.Scalar(%d, 1e-06) : bool[] @ "power.py":5
      %go = aten.logical_and(%early, %moves) : bool[] @ "power.py":5
      return %go
    }
    body(%x: f32[n], %d: f32[], %i: i64[], %a: f32[n,n], %most: i64[]) {
      %ax = aten.mv(%a, %x) : f32[n] @ "power.py":6
      %sq = aten.mul.Tensor(%ax, %ax) : f32[n] @ "power.py":7
      %sum = aten.sum(%sq) : f32[] @ "power.py":7
      %norm = aten.sqrt(%sum) : f32[] @ "power.py":7
      %next = aten.div.Tensor(%ax, %norm) : f32[n] @ "power.py":8
      %change = aten.sub.Tensor(%next, %x) : f32[n] @ "power.py":9
      %size = aten.abs(%change) : f32[n] @ "power.py":9
      %most_changed = aten.max(%size) : f32[] @ "power.py":9
      %j = aten.add.Scalar(%i, 1) : i64[] @ "power.py":10
      return %next, %most_changed, %j
    }
  %first = aten.select.int(%y, 0, 0) : f32[] @ "power.py":11
  %p = aten.lt.Scalar(%first, 0) : bool[] @ "power.py":11
  %z = mica.if(%p, [%y]) : f32[n] @ "power.py":11
    then(%y: f32[n]) {
      %0 = aten.neg(%y) : f32[n] @ "power.py":12
      return %0
    }
    else(%y: f32[n]) {
      return %y
    }
  return %z, %i
}
"""


def power(
    x: torch.Tensor, a: torch.Tensor, most: int
) -> tuple[torch.Tensor, int]:
    """What POWER says, in eager PyTorch."""
    change, rounds = 1.0, 0
    while rounds < most and change > 1e-6:
        ax = a.mv(x)
        after = ax / (ax * ax).sum().sqrt()
        change = float((after - x).abs().max())
        x = after
        rounds += 1
    return (-x if x[0] < 0 else x), rounds


@pytest.mark.parametrize("oracle", [False, True])
@pytest.mark.parametrize("most", [0, 1, 2, 50])
def test_a_loop_and_a_branch(most: int, oracle: bool) -> None:
    generator = torch.Generator().manual_seed(most)
    root = torch.randn(5, 5, generator=generator)
    a = root @ root.T
    x = torch.randn(5, generator=generator)
    program = _mica.Program.parse(POWER)
    executor = _mica.Executor("cpu", 1, 1, False, False, True, oracle=oracle)
    feed = {"x": x, "a": a, "most": torch.tensor(most)}
    y, rounds = executor.run(program, feed, {}, [])
    want, want_rounds = power(x, a, most)
    torch.testing.assert_close(y, want, rtol=1e-4, atol=1e-5)
    assert abs(int(rounds) - want_rounds) <= 1


def test_text_reads_back() -> None:
    program = mica.Program.parse(POWER)
    again = mica.Program.parse(str(program))
    assert str(again) == str(program)


def test_a_branch_that_changes_a_type_is_a_value_error() -> None:
    text = POWER.replace(
        '%0 = aten.neg(%y) : f32[n] @ "power.py":12',
        '%0 = aten._to_copy(%y, dtype=f64) : f64[n] @ "power.py":12',
    ).replace(
        "%z = mica.if(%p, [%y]) : f32[n]", "%z = mica.if(%p, [%y]) : f64[n]"
    )
    program = mica.Program.parse(text)
    feed = {
        "x": torch.ones(2),
        "a": torch.eye(2),
        "most": torch.tensor(1),
    }
    with pytest.raises(ValueError, match=r"power\.py:12") as error:
        mica.Executor("cpu").run(program, feed=feed)
    for part in ("%z", "f64[2]", "f32[2]", "power.py:11", "it is returned"):
        assert part in str(error.value)
    # Nobody reads it: the rest runs.
    (rounds,) = mica.Executor("cpu").run(program, feed=feed, fetch_list=["i"])
    assert int(rounds) == 1
