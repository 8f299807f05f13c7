"""Calls into the world outside that raise, and warnings that become errors."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from typing import Any

import pytest
import torch
from e2e.capture.host_call_sinks import (
    CALLS,
    X,
    plain_logger,
)
from e2e.capture.twins_of_calls import agree

import mica


class Breaks(io.StringIO):
    """Not Python's own: a subclass that raises at some write."""

    n = 0

    def write(self, text):
        self.n += 1
        if self.n == 9:
            raise OSError("disk full")
        return super().write(text)


def full_device():
    return open("/dev/full", "w", buffering=1)  # noqa: SIM115


def test_a_stream_that_raises_leaves_what_comes_after_undone():
    def world():
        buffer, file = torch.zeros(1), Breaks()

        def f(x):
            print("step", file=file)
            buffer.add_(1)
            return x + 1

        return f, lambda: (buffer, file.getvalue())

    agree(world, *CALLS, *CALLS)


@pytest.mark.once("devices")
def test_a_full_disk_leaves_what_eager_leaves():
    def world():
        state = {"n": 0, "done": []}
        buffer = torch.zeros(1)
        layer = torch.nn.Linear(2, 2)
        with torch.no_grad():
            layer.weight.fill_(1.0)
        rate = torch.optim.SGD(layer.parameters(), 0.5)

        def f(x):
            state["n"] += 1
            buffer.add_(1)
            print("first")
            rate.zero_grad()
            loss = layer(x).sum() + torch.rand(())
            state["done"].append(1)
            print("second", loss.detach() * 0)
            loss.backward()
            buffer.mul_(2)
            print("third")
            rate.step()
            state["last"] = 1
            return loss.detach() * 0

        weights = lambda: (state, buffer, layer.weight)  # noqa: E731
        return f, weights

    class Guarded(io.StringIO):
        pass

    with torch.enable_grad():
        eager, state = world()
        plain, own_state = world()
        fast = mica.compile(plain)
        for call in range(8):
            for which in (0, 1, 2):
                ends = []
                for fn in (eager, fast):
                    torch.manual_seed(call)
                    broken = call >= 5
                    out = full_device() if broken else io.StringIO()
                    if broken:
                        out.reconfigure(line_buffering=which == 1)
                    try:
                        with contextlib.redirect_stdout(out):
                            fn(X)
                        ends.append("ok")
                    except OSError as error:
                        ends.append(str(error))
                    ends.append(torch.get_rng_state().sum().item())
                    with contextlib.suppress(OSError):
                        out.close()
                assert ends[:2] == ends[2:], (call, which, ends)
                assert str(state()) == str(own_state()), (call, which)
        assert mica.explain(fast).hits > 6


def test_a_message_that_does_not_fit_shows_the_users_lines(monkeypatch):
    def world():
        log, out = plain_logger()
        state = {"n": 0}

        def f(x):
            state["n"] += 1
            print("before")
            log.info("value %d", "text")
            return x * 2

        return f, lambda: (out.getvalue(), state)

    def lines_of(fn):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            fn(X)
        return [
            line
            for line in err.getvalue().splitlines()
            if "test_host_calls" in line and "in f" in line
        ]

    monkeypatch.setattr(logging, "raiseExceptions", True)
    (eager, state), (plain, own_state) = world(), world()
    fast = mica.compile(plain)
    for _ in range(4):
        assert lines_of(eager) == lines_of(fast)
        assert len(lines_of(eager)) == len(lines_of(fast)) == 1
        assert state() == own_state()


def test_a_closed_file_raises_in_the_programs_own_try():
    def world():
        out = io.StringIO()
        state = {"failed": 0, "n": 0}

        def f(x):
            state["n"] += 1
            try:
                print("one", file=out)
            except ValueError:
                state["failed"] += 1
                x = x * 3
            return x + state["failed"] * 0

        f.handle = out
        return f, lambda: state

    def close(number, out):
        if number == 3:
            out.close()

    letters, _ = agree(world, *CALLS, *CALLS, between=close)
    assert letters.startswith("c")


def test_calls_before_the_one_that_raises_are_made_once():
    def world():
        out, closed = io.StringIO(), io.StringIO()
        history: list[int] = []

        def f(x):
            print("one", file=out)
            history.append(1)
            print("two", x, file=out)
            print("three", file=closed)
            history.append(2)
            print("four", file=out)
            return x

        f.handle = closed
        return f, lambda: (out.getvalue(), history)

    def close(number, closed):
        if number == 3:
            closed.close()

    letters, _ = agree(world, *CALLS, between=close)
    assert letters.startswith("chh")


@pytest.mark.parametrize("is_inside", [False, True])
def test_warnings_that_become_errors(is_inside):
    def world():
        state = {"caught": 0, "n": 0}
        buffer = torch.zeros(1)

        def inside(x):
            state["n"] += 1
            buffer.add_(1)
            try:
                warnings.warn("careful", stacklevel=1)
            except UserWarning:
                state["caught"] += 1
                return x * 5
            buffer.add_(2)
            return x + 1

        def outside(x):
            state["n"] += 1
            buffer.add_(1)
            warnings.warn("careful", stacklevel=1)
            buffer.add_(2)
            return x + 1

        return (inside if is_inside else outside), lambda: (state, buffer)

    def mode(number, _):
        warnings.simplefilter("error" if number in (3, 4, 8) else "ignore")
        warnings.simplefilter("ignore", mica.errors.MicaWarning)

    with warnings.catch_warnings():
        letters, _ = agree(world, *CALLS, *CALLS, between=mode)
    assert letters.startswith("chh")


@pytest.mark.once("pytest keeps the warnings")
@pytest.mark.parametrize(
    "mode", ["error", "always", "default", "once", "module", "ignore"]
)
def test_warnings_by_every_filter(mode):
    def world():
        def f(x, k):
            with contextlib.suppress(UserWarning):
                warnings.warn(f"careful {k}", stacklevel=1)
            return x * k

        return f, lambda: None

    with warnings.catch_warnings():
        warnings.simplefilter(mode)
        warnings.simplefilter("ignore", mica.errors.MicaWarning)
        agree(world, *(((X, k)) for k in (1, 2, 1, 2, 1, 2)))


def test_warnings_that_are_recorded_are_eagers():
    def world():
        seen: list[Any] = []

        def f(x):
            warnings.warn("one", stacklevel=1)
            warnings.warn("two", DeprecationWarning, stacklevel=1)
            return x * 2

        def run(x):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                y = fast(x)
            seen.extend((str(w.message), w.category, w.lineno) for w in told)
            return y

        fast = f
        run.program = f
        return run, lambda: seen

    (eager, want), (run, got) = world(), world()
    fast = mica.compile(run.program)
    run.__closure__[run.__code__.co_freevars.index("fast")].cell_contents = fast
    for _ in range(5):
        eager(X)
        run(X)
    assert want() == got()
    assert mica.explain(fast).hits == 4


def test_a_list_of_recorded_warnings_that_the_program_reads():
    def world():
        told: list[Any] = []

        def f(x):
            warnings.warn("one", stacklevel=1)
            return x * len(told)

        f.handle = told
        return f, lambda: len(told)

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", mica.errors.MicaWarning)

        def keep(number, told):
            warnings._showwarnmsg_impl = told.append

        agree(world, *CALLS, between=keep)
