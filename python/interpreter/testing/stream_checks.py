"""What stream.h tells beside the events of programs.py, and when it ends."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import mica_interpreter_testing as stream
from checks import check


@check
def constants_are_told_returned_ones_included() -> None:
    def f():
        n = 1.5
        if n:
            return 2.5
        return (3.5, n)

    lines, result = stream.events(f, (), constants=True)
    assert result == 2.5
    assert "constant 1.5" in lines and "constant 2.5" in lines, lines
    assert not any("3.5" in line for line in lines), lines


@check
def a_function_that_is_not_followed_is_left_out_with_what_it_calls() -> None:
    def inner():
        return len("ab")

    def outer():
        return inner()

    def f():
        outer()
        return len("abc")

    name = outer.__qualname__
    for how in ({"unfollowed": name}, {"stepped_over": name}):
        lines, result = stream.events(f, (), **how)
        assert result == 3
        text = "\n".join(lines)
        assert f"call def {name}()" in text
        assert "enter " + inner.__qualname__ not in text, text
        assert "call builtin len('ab')" not in text, text
        assert "call builtin len('abc') -> 3" in text, text


@check
def a_function_runs_the_same_code_skipped_and_followed() -> None:
    def again(n):
        return n if n == 0 else again(n - 1) + 1

    def outer():
        return again(2)

    def f():
        first = again(1)
        return first, outer(), again(1)

    lines, result = stream.events(f, (), unfollowed=outer.__qualname__)
    assert result == (1, 2, 1)
    one = [line for line in lines if line.startswith("compare ")]
    assert one == [
        "compare 1 == 0 -> False",
        "compare 0 == 0 -> True",
        "compare 1 == 0 -> False",
        "compare 0 == 0 -> True",
    ], lines


@check
def the_stream_stops_when_its_listener_has_enough() -> None:
    def f():
        out = []
        for i in range(20):
            out.append(-i)
        return out

    lines, result = stream.events(f, (), max_events=5)
    assert result == [-i for i in range(20)]
    assert 5 <= len(lines) <= 7, lines
    assert not stream.is_tracer_active()
    again, _ = stream.events(f, ())
    assert len(again) > 60, again


@check
def after_an_error_the_stream_is_gone_and_works_again() -> None:
    def f(n):
        return 1 // n

    lines, error = stream.events(f, (0,))
    assert isinstance(error, ZeroDivisionError)
    assert lines[-1] == "binary floordiv of 1 and 0", lines
    assert not stream.is_tracer_active()
    lines, result = stream.events(f, (1,))
    assert lines[-1] == "binary floordiv of 1 and 1 -> 1", lines


@check
def other_tracers_see_no_steps_after_a_stream() -> None:
    def f():
        return len("ab")

    stream.events(f, ())
    seen = set()

    def tracer(frame, what, arg):
        seen.add(what)
        return tracer

    sys.settrace(tracer)
    try:
        f()
        assert stream.is_tracer_active()
    finally:
        sys.settrace(None)
    assert seen == {"call", "line", "return"}, seen
    assert not tools_taken()


@check
def threads_have_streams_of_their_own() -> None:
    def work(n):
        total = 0
        for i in range(n):
            total = total + -i
        return total

    expected, _ = stream.events(work, (200,))
    results: dict[int, Any] = {}
    begin = threading.Barrier(4)

    def run(index):
        begin.wait()
        if index == 3:  # Watched by nobody, while it runs the same code.
            for _ in range(50):
                work(200)
        else:
            results[index] = [stream.events(work, (200,)) for _ in range(5)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for runs in results.values():
        for lines, result in runs:
            assert result == -19900
            assert lines == expected
    assert len(results) == 3


OLD = sys.version_info < (3, 12)
NO_TOOL = "refuse: no tool of sys.monitoring's is free"
NO_TRACER = "refuse: no tracer can be set: an audit hook raises"
REFUSALS = (NO_TOOL, NO_TRACER)


def in_child(run: Callable[[], None]) -> None:
    """Runs it in a process of its own: an audit hook stays for good."""
    child = os.fork()
    if child == 0:
        try:
            run()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def tools_taken() -> list[str]:
    if OLD:
        return []
    names = (sys.monitoring.get_tool(i) for i in range(6))
    return [name for name in names if name]


@check
def threads_share_a_tool_while_an_audit_hook_lets_others_run() -> None:
    def work(n):
        total = 0
        for i in range(n):
            total = total + -i
        return total

    def hook(event, args):
        if event.startswith("sys."):
            time.sleep(1e-5)

    def run():
        sys.addaudithook(hook)
        sys.unraisablehook = lambda _: None  # What 3.11 tries again.
        expected, _ = stream.events(work, (9,))
        assert len(expected) > 9, expected
        good = []

        def repeat():
            for _ in range(100):
                lines, result = stream.events(work, (9,))
                assert result == -36
                # 3.11 can't set two tracers at a time.
                is_refused = lines[:1] == [NO_TRACER] and OLD
                assert lines == expected or is_refused, lines
            good.append(True)

        threads = [threading.Thread(target=repeat) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(good) == len(threads)
        assert not tools_taken()

    in_child(run)


@check
def an_audit_hook_that_raises_leaves_no_tracer() -> None:
    def f():
        return len("ab")

    left = 0  # How often the hook raises yet, once so many events went by.
    skipped = 0

    def hook(event, args):
        nonlocal left, skipped
        if event not in ("sys.settrace", "sys.monitoring.register_callback"):
            return
        if skipped > 0:
            skipped -= 1
        elif left > 0:
            left -= 1
            raise KeyboardInterrupt

    def run():
        nonlocal left, skipped
        expected, _ = stream.events(f, ())
        sys.addaudithook(hook)
        sys.unraisablehook = lambda _: None
        for first in range(3):
            for times in (1, 9):
                skipped, left = first, times
                lines, result = stream.events(f, ())
                left = 0
                assert result == 2
                assert lines == expected or lines[0] in REFUSALS, lines
                # One that can't be taken away tells nothing more.
                assert f() == 2
                assert stream.events(f, ()) == (expected, 2)
                assert not stream.is_tracer_active()
                assert not tools_taken()

    in_child(run)


@check
def a_method_that_python_code_looks_up_comes_back() -> None:
    class Box:
        def __getattr__(self, name):
            return len

    lines, result = stream.events(lambda box: box.size("ab"), (Box(),))
    assert result == 2
    assert "call builtin len('ab') -> 2" in lines, lines
    assert "came back with nothing" not in lines, lines


@check
def a_generator_made_before_is_followed_when_it_goes_on() -> None:
    def numbers():
        yield 1
        yield -(2 + int("0"))

    made = numbers()
    next(made)
    lines, result = stream.events(next, (made,))
    assert result == -2
    assert lines[0] == f"enter {numbers.__qualname__}", lines
    assert lines[-1] == "negate 2 -> -2", lines


if sys.version_info >= (3, 12):

    @check
    def without_a_free_tool_the_stream_refuses() -> None:
        def f():
            return len("ab")

        taken = [i for i in range(6) if sys.monitoring.get_tool(i) is None]
        for i in taken:
            sys.monitoring.use_tool_id(i, f"test {i}")
        try:
            lines, result = stream.events(f, ())
        finally:
            for i in taken:
                sys.monitoring.free_tool_id(i)
        assert result == 2
        assert lines == [NO_TOOL], lines

    def codes_of(code: CodeType) -> Iterator[CodeType]:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from codes_of(constant)

    @check
    def depths_of_the_standard_librarys_code_are_the_compilers() -> None:
        count = 0
        for file in sorted(Path(os.__file__).parent.glob("*.py")):
            module = compile(file.read_bytes(), str(file), "exec")
            for code in codes_of(module):
                depths = stream.depths(code)
                assert depths is not None, code
                # On 3.13 the compiler counts a place for generators' sake.
                assert code.co_stacksize - max(depths) in (0, 1), code
                count += 1
        assert count > 5000, count
