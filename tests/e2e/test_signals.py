"""Ctrl-C, and other signals, while the engine runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import mica

# A loop that never ends if %n is above 0, then an update.
ENDLESS = """program @endless(%n: i64[], %x: f32[4]) {
  %w = variable "w" : f32[4]
  %zero = constant [0] : i64[]
  %r = mica.while([%zero], [%n]) : i64[]
    cond(%i: i64[], %n: i64[]) {
      %p = aten.lt.Tensor(%i, %n) : bool[]
      return %p
    }
    body(%i: i64[], %n: i64[]) {
      %next = aten.mul.Scalar(%i, 1) : i64[]
      return %next
    }
  %y = aten.add.Tensor(%w, %x) : f32[4]
  update %w = %y
  return %r, %y
}
"""

WAYS: dict[str, dict[str, Any]] = {
    "in order": {"num_threads": 1},
    "queue": {"num_threads": 2, "queue": True},
    "streams": {"num_streams": 2},
}


class Alarm(Exception):
    """What a handler here raises."""


@contextmanager
def alarm(handler: Callable[..., None]) -> Iterator[None]:
    """Calls the handler on SIGALRM, which comes soon and again and again."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def raise_alarm(*_: object) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    raise Alarm


def endless() -> mica.Program:
    program = mica.Program.parse(ENDLESS)
    program.tensors["w"] = torch.ones(4)
    return program


def feed(n: int) -> dict[str, Tensor]:
    return {"n": torch.tensor(n), "x": torch.ones(4)}


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_that_raises_ends_a_run(way: str) -> None:
    program = endless()
    executor = mica.Executor("cpu", **WAYS[way])
    with pytest.raises(Alarm), alarm(raise_alarm):
        executor.run(program, feed(1))
    assert torch.equal(program.tensors["w"], torch.ones(4))
    executor.run(program, feed(0))
    assert torch.equal(program.tensors["w"], torch.full((4,), 2.0))


def test_handlers_that_raise_nothing_leave_a_run_alone() -> None:
    program = endless()
    executor = mica.Executor("cpu", num_threads=1)
    errors: list[str] = []
    calls = 0

    def handler(*_: object) -> None:
        nonlocal calls
        calls += 1
        # What the run uses may go, and the Executor isn't to be had.
        program.tensors["w"] = torch.zeros(4)
        try:
            executor.run(program, feed(0))
        except RuntimeError as error:
            errors.append(str(error))
        if calls == 3:
            raise_alarm()

    with pytest.raises(Alarm), alarm(handler):
        executor.run(program, feed(1))
    assert calls == 3
    assert all("in the midst of a run" in error for error in errors)
    assert len(errors) == 3
    executor.run(program, feed(0))
    assert torch.equal(program.tensors["w"], torch.ones(4))


def test_a_hit_ends_before_it_writes() -> None:
    count = torch.zeros(1)

    def step(x: Tensor) -> Tensor:
        for _ in range(200):
            x = x @ x
        count.add_(1)
        return x

    fast = mica.compile(step)
    eye = torch.eye(256)
    with torch.no_grad():
        for _ in range(3):
            fast(eye)
        assert fast._mica_report()["hits"] == 2
        assert count.item() == 3
        # Handled between the steps, not when all is done.
        with pytest.raises(Alarm), alarm(raise_alarm):
            while True:
                before = count.item()
                fast(eye)
        assert count.item() == before
        assert torch.equal(fast(eye), eye)
        assert count.item() == before + 1


# A shell may have started all of this with Ctrl-C ignored.
CTRL_C = """
import signal, sys, torch, mica
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {here!r})
import test_signals as t
program = t.endless()
executor = mica.Executor("cpu", **t.WAYS[{way!r}])
executor.run(program, t.feed(0))
try:
    print("ready", flush=True)
    executor.run(program, t.feed(1))
except KeyboardInterrupt:
    executor.run(program, t.feed(0))
    print(program.tensors["w"].tolist(), flush=True)
"""


@contextmanager
def killed_after(
    seconds: float, child: subprocess.Popen[str]
) -> Iterator[None]:
    """Ends a child that hangs, so that waiting for it ends too."""
    timer = threading.Timer(seconds, child.kill)
    timer.start()
    try:
        yield
    except BaseException:
        child.kill()
        raise
    finally:
        timer.cancel()


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_a_run(way: str) -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    with (
        subprocess.Popen(
            [sys.executable, "-c", CTRL_C.format(here=here, way=way)],
            stdout=subprocess.PIPE,
            text=True,
        ) as child,
        killed_after(120, child),
    ):
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "[3.0, 3.0, 3.0, 3.0]\n"
        assert child.wait(timeout=60) == 0
