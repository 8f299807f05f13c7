"""What interpreter.h tells of frames; frame_hook.h and pending_signals.h."""

from __future__ import annotations

import collections
import functools
import signal
import sys
import threading
import typing
from typing import Any

import mica_interpreter_testing as stream
from checks import Module, check


def line_here(back: int = 0) -> int:
    return sys._getframe(1).f_lineno - back


@check
def the_users_line_is_the_running_one() -> None:
    def by_c() -> Any:
        return list(map(lambda _: stream.user_line(), [0]))[0]

    assert stream.user_line() == (__file__, line_here())
    file, line = by_c()
    assert (file, line) == (__file__, by_c.__code__.co_firstlineno + 1)
    scope: dict[str, Any] = {"stream": stream}
    for where, is_users in (
        ("/no/torch/nn/x.py", False),
        ("/no/mica/x.py", False),
        ("<frozen x>", False),
        ("/no/torchvision/x.py", True),
        ("/home/x.py", True),
    ):
        code = compile("\n\ndef f(): return stream.user_line()", where, "exec")
        exec(code, scope)
        got = scope["f"]()
        here = (__file__, line_here(back=1))
        assert got == ((where, 3) if is_users else here), got


@check
def frames_above() -> None:
    def inner(level: int, outer: Any = None) -> Any:
        return stream.frame_above(level, outer)

    def middle(level: int, outer: Any = None) -> Any:
        # By C code, which is no frame.
        return max([inner(level, outer)], key=lambda _: 1)

    globals_, file, line = inner(0)
    assert globals_ is globals() and file == __file__
    assert line == inner.__code__.co_firstlineno + 1
    assert middle(1)[2] == middle.__code__.co_firstlineno + 2
    assert middle(2)[1:] == (__file__, line_here())
    assert stream.frame_above(0, sys._getframe()) is None
    assert middle(1, sys._getframe())[2] == middle.__code__.co_firstlineno + 2
    assert middle(2, sys._getframe()) is None
    assert middle(10**6) is None


@check
def sites_are_the_functions_below_a_frame() -> None:
    def inner() -> Any:
        return stream.sites_below(outer)

    class Net(Module):
        def forward(self, n: int) -> Any:
            return sorted([inner()], key=lambda _: 1)[0]

    def generator() -> Any:
        yield net(3)  # Isn't split.

    net = Net()
    outer = sys._getframe()
    (first, module, unit), (second, _, _), (third, none, _) = next(generator())
    assert first is Module.__call__.__code__ and module is net
    assert second is Net.forward.__code__
    assert third is inner.__code__ and none is None
    instructions = list(first.co_positions())
    assert 0 < unit < len(instructions)
    # The call: `self.forward(*args)`.
    assert instructions[unit][0] == first.co_firstlineno + 1
    everything = stream.sites_below(None)
    assert everything[-1][0] is sys._getframe().f_code


@check
def called_modules_are_found_innermost_first() -> None:
    class Leaf(Module):
        def forward(self) -> Any:
            return stream.called_modules()

    class Net(Module):
        def __init__(self) -> None:
            self.leaf = Leaf()

        def forward(self) -> Any:
            return [self.leaf() for _ in range(1)][0]

    net = Net()
    assert net() == [net.leaf, net]
    assert stream.called_modules() == []


@check
def code_that_can_be_split() -> None:
    def generator() -> Any:
        yield 1

    assert stream.can_split(frames_above.__code__)
    assert not stream.can_split(generator.__code__)
    assert not stream.can_split(compile("1", "x.py", "exec"))
    assert not stream.can_split(collections.Counter.update.__code__)
    scope: dict[str, Any] = {}
    for where, name, can in (
        ("/no/torch/nn/x.py", "forward", True),
        ("/no/torch/nn/x.py", "helper", False),
        ("/no/mica/x.py", "forward", False),
        ("/x/site-packages/numpy/x.py", "f", False),
        ("/x/site-packages/timm/x.py", "f", True),
    ):
        exec(compile(f"def {name}(): pass", where, "exec"), scope)
        assert stream.can_split(scope[name].__code__) == can, where


@check
def typing_is_setting_up() -> None:
    assert not stream.is_setting_up()
    scope: dict[str, Any] = {"stream": stream}
    exec(
        compile(
            "def f(): return stream.is_setting_up()", typing.__file__, "exec"
        ),
        scope,
    )
    assert scope["f"]()


# ---- Evaluating frames in the interpreter's place.


def plain(a: int, b: int = 2, *rest: int, c: int = 3) -> Any:
    total = a + b + c
    return total


@check
def a_hook_may_give_a_functions_result() -> None:
    asked = []

    def evaluate(function: Any, variables: list[Any], by_module: bool) -> Any:
        asked.append((function.__name__, variables, by_module))
        return ("made",) if function is plain else None

    def f() -> Any:
        return plain(1), plain(1, c=9), [plain(*(1, 2, 4))]

    for _ in range(50):  # Specialised calls too.
        asked.clear()
        assert stream.with_hook(evaluate, f, ()) == ("made", "made", ["made"])
    names = [name for name, _, _ in asked if name in ("f", "plain")]
    assert names == ["f", "plain", "plain", "plain"], names
    calls = [variables for name, variables, _ in asked if name == "plain"]
    # `total` has no value yet.
    assert calls == [
        [1, 2, 3, (), None],
        [1, 2, 9, (), None],
        [1, 2, 3, (4,), None],
    ], calls
    assert f() == (6, 12, [6])


@check
def a_hook_may_raise_and_frames_are_taken_away() -> None:
    class Argument:
        pass

    def evaluate(function: Any, variables: list[Any], by_module: bool) -> Any:
        if function.__name__ != "target":
            return None
        if variables[0] is None:
            raise ValueError("from the hook")
        return (len(variables),)

    def target(argument: Any) -> Any:
        try:
            return [argument for _ in range(3)]
        finally:
            print("never")

    def f() -> Any:
        argument = Argument()
        before = sys.getrefcount(argument)
        results = [target(argument) for _ in range(100)]
        try:
            target(None)
        except ValueError as error:
            names = []
            trace = error.__traceback__
            while trace is not None:
                names.append(trace.tb_frame.f_code.co_name)
                trace = trace.tb_next
            assert "target" not in names, names
        else:
            raise AssertionError("did not raise")
        return set(results), sys.getrefcount(argument) - before

    sizes, leaked = stream.with_hook(evaluate, f, ())
    assert sizes == {target.__code__.co_nlocals} and leaked == 0, leaked


@check
def hooks_leave_generators_closures_and_modules_right() -> None:
    asked = []

    def evaluate(function: Any, variables: list[Any], by_module: bool) -> Any:
        asked.append((function.__name__, by_module))
        return None

    class Net(Module):
        def forward(self, n: int) -> Any:
            return sum(n * i for i in range(3))

    def f() -> Any:
        return Net()(2), list(x for x in (1, 2))

    assert stream.with_hook(evaluate, f, ()) == (6, [1, 2])
    assert ("forward", True) in asked and ("__call__", False) in asked, asked
    asked.clear()
    f()
    assert asked == []


@check
def hooks_are_of_one_thread_and_not_under_a_tracer() -> None:
    def evaluate(function: Any, variables: list[Any], by_module: bool) -> Any:
        return ("made",) if function is plain else None

    def f() -> Any:
        seen = []
        thread = threading.Thread(target=lambda: seen.append(plain(1)))
        thread.start()
        thread.join()
        sys.settrace(lambda *_: None)
        try:
            seen.append(plain(1))
        finally:
            sys.settrace(None)
        return seen, plain(1)

    assert stream.with_hook(evaluate, f, ()) == ([6, 6], "made")


# ---- Signals.


@check
def a_signal_is_seen_before_its_handler_runs() -> None:
    assert stream.is_main_thread()
    seen = []
    thread = threading.Thread(
        target=lambda: seen.append(stream.is_main_thread())
    )
    thread.start()
    thread.join()
    assert seen == [False]
    got = []
    before = signal.signal(signal.SIGUSR1, lambda *_: got.append("handled"))
    try:
        # In C code, in which no handler runs.
        flags = list(
            map(
                lambda f: f(),
                [
                    stream.pending_signals,
                    functools.partial(raise_in_c, signal.SIGUSR1),
                    stream.pending_signals,
                ],
            )
        )
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert flags[0] == 0 and got == ["handled"], (flags, got)
    assert stream.pending_signals() == 0


def raise_in_c(number: int) -> None:
    signal.raise_signal(number)
