"""Calls into the world outside: order, what they see, what they change."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections import deque
from typing import Any

import pytest
import torch
from e2e.capture.host_call_sinks import (
    CALLS,
    Keeps,
    Tee,
    X,
    a_logger,
    plain_logger,
)
from e2e.capture.twins_of_calls import agree

import mica

# What is read after a call that changed it.


def test_what_a_stream_of_the_users_counts_is_read_after_it():
    def world():
        tee = Tee()

        def f(x):
            print("step", file=tee)
            return x * tee.n

        return f, lambda: tee.n

    letters, _ = agree(world, *CALLS)
    assert "h" not in letters and letters.endswith("ppp")


def test_what_a_handler_of_the_users_counts_is_read_after_it():
    def world():
        handler = Keeps()
        log = a_logger(handler)

        def f(x):
            log.info("step")
            return x * len(handler.lines)

        return f, lambda: handler.lines

    agree(world, *CALLS)


def test_a_filter_and_a_formatter_of_the_users_run_where_they_are_called():
    def world(kind):
        state = {"n": 0}

        class Counts(logging.Filter, logging.Formatter):
            def filter(self, record):
                state["n"] += 1
                return True

            def format(self, record):
                state["n"] += 10
                return f"{state['n']} {record.getMessage()}"

        log, out = plain_logger()
        if kind == "filter":
            log.addFilter(Counts())
        elif kind == "handler's filter":
            log.handlers[0].addFilter(Counts())
        else:
            log.handlers[0].setFormatter(Counts())

        def f(x):
            log.info("step")
            return x * state["n"]

        return f, lambda: (state, out.getvalue())

    for kind in ("filter", "handler's filter", "formatter"):
        agree(lambda kind=kind: world(kind), *CALLS)


def test_a_showwarning_of_the_users_changes_what_is_read_next():
    def world():
        state = {"n": 0}

        def count(*args, **kwargs):
            state["n"] += 1

        def f(x):
            warnings.warn("careful", stacklevel=1)
            return x * state["n"]

        f.handle = count
        return f, lambda: state

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", mica.errors.MicaWarning)

        def show(number, count):
            warnings.showwarning = count

        agree(world, *CALLS, between=show)


def test_an_annotated_call_changes_a_buffer_that_is_read_next():
    def world():
        buffer = torch.zeros(2)

        def note(value):
            buffer.add_(value)

        mica.annotate(note, "host")

        def f(x):
            y = x * 2
            note(1)
            return y + buffer

        return f, lambda: buffer

    letters, _ = agree(world, *CALLS)
    assert letters.endswith("ppp")


def test_an_annotated_call_writes_a_tensor_that_it_was_given():
    def note_world():
        seen = []

        def zero(t):
            t.zero_()
            seen.append(t.tolist())

        mica.annotate(zero, "host")

        def f(x):
            y = x + 1
            zero(y)
            return y

        return f, lambda: seen

    letters, _ = agree(note_world, *CALLS)
    assert "h" not in letters


def test_a_callback_in_a_loop_stops_it():
    def world():
        state = {"stop": False, "n": 0}

        def callback(i):
            state["n"] += 1
            state["stop"] = i == 1 and state["n"] % 4 == 0

        mica.annotate(callback, "host")

        def f(x):
            for i in range(4):
                x = x * 2
                callback(i)
                if state["stop"]:
                    break
            return x

        return f, lambda: state

    agree(world, *CALLS, *CALLS)


# What a call sees.


@pytest.mark.parametrize("kind", ["list", "deque", "dict", "attribute"])
@pytest.mark.parametrize("is_plain", [False, True])
def test_a_log_of_what_was_just_changed(kind, is_plain):
    class Box:
        value = 0

        def __repr__(self):
            return f"Box({self.value})"

    def world():
        handler = Keeps()
        log, out = plain_logger()
        if not is_plain:
            log.addHandler(handler)
        held: Any = {
            "list": [],
            "deque": deque(maxlen=3),
            "dict": {},
            "attribute": Box(),
        }[kind]

        def f(x, k):
            if kind in ("list", "deque"):
                held.append(k)
            elif kind == "dict":
                held["k"] = k
            else:
                held.value = k
            log.info("before %s", held)
            y = x * 2
            log.info("after %s", held)
            if kind == "list":
                held.append(-k)
            elif kind == "dict":
                held["l"] = k
            return y

        def show():
            return str(held), handler.lines, out.getvalue()

        return f, show

    agree(world, *(((X, k)) for k in (1, 2, 1, 2, 1, 2)))


def test_a_log_of_a_dict_that_stays_is_served():
    def world():
        settings = {"rate": 0.1, "sizes": [1, 2], "on": (True, None)}
        log, out = plain_logger()

        def f(x):
            log.info("settings %s", settings)
            return x * 2

        f.handle = settings
        return f, out.getvalue

    def change(number, settings):
        if number == 3:
            settings["rate"] = 0.2
        if number == 4:
            settings["sizes"].append(3)
        if number == 5:
            settings["on"] = Tee  # No constant.

    letters, _ = agree(world, *CALLS, between=change)
    assert letters.startswith("chhhh") and letters[5] != "h"


def test_a_call_sees_an_attribute_that_was_set_and_a_buffer_not_yet_written():
    def world():
        seen, buffer = [], torch.zeros(1)

        class State:
            level = 0

        state = State()
        spy = Tee(lambda text: seen.append((state.level, buffer.item())))

        def f(x, k):
            state.level = k
            print("now", file=spy)
            buffer.add_(1)
            return x * 2

        return f, lambda: (seen, state.level, buffer)

    agree(world, *(((X, k)) for k in (1, 2, 1, 2, 1, 2)))


def test_a_last_call_sees_all_that_was_done():
    def world():
        seen, buffer, history, count = [], torch.zeros(1), [], {"n": 0}

        def note(word):
            seen.append((word, buffer.item(), list(history), dict(count)))

        mica.annotate(note, "host")

        def f(x):
            buffer.add_(1)
            history.append(2.5)
            count["n"] += 1
            y = x * 2
            note("done")
            return y

        return f, lambda: (seen, buffer, history, count)

    letters, _ = agree(world, *CALLS)
    assert letters == "chhhhh"


def test_a_tensor_is_printed_as_it_was():
    def world():
        buffer = torch.zeros(2)

        def f(x):
            y = x * 2
            print("y", y, buffer)
            y.add_(1)
            buffer.add_(y)
            print("then", y, buffer, x)
            buffer.mul_(2)
            return y

        return f, lambda: buffer

    letters, _ = agree(world, *CALLS)
    assert letters == "chhhhh"


def test_a_tensor_that_requires_grad_is_printed_with_its_history():
    def world():
        layer = torch.nn.Linear(2, 1)
        with torch.no_grad():
            layer.weight.fill_(0.5)
            layer.bias.fill_(0.25)
        log, out = plain_logger()

        def f(x):
            loss = layer(x).sum()
            print("loss", loss, layer.weight, loss.detach())
            log.info("loss %.3f %s", loss, loss)
            loss.backward()
            return loss.detach()

        return f, lambda: (out.getvalue(), layer.weight.grad)

    with torch.enable_grad():
        letters, _ = agree(world, *CALLS)
    assert letters.endswith("hhh")


def test_numbers_are_logged_as_they_were():
    def world():
        log, out = plain_logger()
        state = {"step": 0.0}

        def f(x):
            state["step"] += 1.0
            log.info("loss %.3f", (x * state["step"]).sum().item())
            print("done", x.shape, x.dtype)
            return x * 2

        return f, lambda: (out.getvalue(), state)

    agree(world, *CALLS, *CALLS)


# What a sink is may change between two calls.


def test_standard_output_becomes_a_tee():
    def world():
        tee = Tee()

        def f(x):
            print("step")
            return x * tee.n

        f.handle = tee
        return f, lambda: tee.n

    eager, state = world()
    plain, own_state = world()
    fast = mica.compile(plain)
    hits = []
    for number in range(9):
        results = []
        for fn, tee in ((eager, eager.handle), (fast, plain.handle)):
            out = tee if 3 <= number < 6 else io.StringIO()
            with contextlib.redirect_stdout(out):
                results.append(fn(X).tolist())
        assert results[0] == results[1], number
        assert state() == own_state()
        hits.append(mica.explain(fast).hits)
    assert hits[2] == 2 and hits[5] == hits[2]


@pytest.mark.parametrize(
    "change",
    [
        lambda log, own: log.addHandler(own),
        lambda log, own: log.addFilter(lambda record: own.handle(record) or 1),
        lambda log, own: log.handlers[0].setFormatter(own.formatter),
        lambda log, own: setattr(log.handlers[0], "emit", own.emit),
        lambda log, own: setattr(log, "handle", own.emit),
        lambda log, own: log.handlers[0].setStream(Tee(own.lines.append)),
        lambda log, own: setattr(log.handlers[0].stream, "write", own.write),
    ],
)
def test_a_logger_gets_code_of_the_users(change):
    class Formats(logging.Formatter):
        def __init__(self, own):
            super().__init__()
            self.own = own

        def format(self, record):
            self.own.lines.append("formatted")
            return super().format(record)

    class Own(Keeps):
        def write(self, text):
            self.lines.append(text)

    def world():
        own = Own()
        own.formatter = Formats(own)
        log, out = plain_logger()

        def f(x):
            log.info("step %d", 3)
            return x * len(own.lines)

        f.handle = (log, own)
        return f, lambda: own.lines

    def between(number, handle):
        if number == 3:
            change(*handle)

    letters, _ = agree(world, *CALLS, *CALLS, between=between)
    assert letters.startswith("chh") and letters[3] != "h"


def test_a_method_of_logging_is_patched(monkeypatch):
    lines: list[str] = []

    def world():
        log, out = plain_logger()

        def f(x):
            log.info("step")
            return x * len(lines)

        return f, out.getvalue

    emit = logging.StreamHandler.emit

    def patched(self, record):
        lines.append("patched")
        emit(self, record)

    def between(number, _):
        lines.clear()
        if number == 3:
            monkeypatch.setattr(logging.StreamHandler, "emit", patched)

    letters, _ = agree(world, *CALLS, between=between)
    assert letters.startswith("chh") and letters[3] != "h"


def test_a_program_that_configures_its_logger_while_it_runs():
    def world():
        log, out = plain_logger()

        def f(x, k):
            log.setLevel(logging.DEBUG if k else logging.WARNING)
            log.info("one")
            log.setLevel(logging.INFO)
            log.debug("two")
            return x * 2

        return f, lambda: (out.getvalue(), log.level)

    agree(world, *(((X, k)) for k in (0, 1, 0, 1, 0, 1)))


# What is one graph.


def test_ordinary_calls_are_one_graph(tmp_path):
    path = str(tmp_path / "log")

    def world():
        out, file = io.StringIO(), open(path, "a")  # noqa: SIM115
        log = a_logger(
            logging.StreamHandler(out),
            logging.FileHandler(path),
            logging.NullHandler(),
        )
        log.handlers[0].setFormatter(
            logging.Formatter("%(levelname)s:%(funcName)s:%(message)s")
        )
        adapter = logging.LoggerAdapter(log, {"part": 1})
        quiet = logging.getLogger("mica.test.host.quiet")
        buffer, state = torch.zeros(2), {"n": 0}

        def f(x):
            state["n"] += 1
            print("begin", x, flush=True)
            y = x * 2 + buffer
            log.info("y %s", y)
            buffer.add_(1)
            log.debug("never %s", y)
            print("to a file", file=file)
            adapter.warning("adapted %d", 3)
            quiet.debug("nobody")
            z = torch.relu(y)
            print("end", z.sum().item())
            return z

        return f, lambda: (out.getvalue(), buffer, state)

    letters, _ = agree(world, *CALLS)
    assert letters.endswith("hh")


def test_a_logger_that_propagates_to_the_root_is_one_graph(caplog):
    log = logging.getLogger("mica.test.host.propagates")
    log.setLevel(logging.INFO)

    def f(x):
        y = x * 2
        log.info("y %.1f", y.sum())
        return torch.relu(y)

    fast = mica.compile(f)
    for _ in range(4):
        f(X)
        fast(X)
    assert mica.explain(fast).hits == 3
    assert [r.getMessage() for r in caplog.records] == ["y 4.0"] * 8
    caplog.clear()


def test_the_handler_of_last_resort_writes(monkeypatch):
    def world():
        log = logging.Logger("mica.test.host.alone")

        def f(x):
            log.warning("nobody listens to %s", x)
            return x * 2

        return f, lambda: None

    letters, _ = agree(world, *CALLS)
    assert letters == "chhhhh"


def test_callbacks_are_called_in_order_with_what_they_change():
    def world():
        state: dict[str, Any] = {"order": []}

        class Callback:
            def __init__(self, name):
                self.name = name

            def __call__(self, x):
                state["order"].append((self.name, x.sum().item()))
                print(self.name)

        callbacks = [Callback("a"), Callback("b")]

        def f(x):
            y = x * 2
            for callback in callbacks:
                callback(y)
            return y + 1

        return f, lambda: state

    agree(world, *CALLS)


def test_hooks_that_print():
    def world():
        layer = torch.nn.Linear(2, 2)
        with torch.no_grad():
            layer.weight.fill_(1.0)
            layer.bias.fill_(0.0)
        layer.register_forward_hook(lambda m, a, y: print("hook", y))
        layer.register_forward_pre_hook(lambda m, a: print("before"))

        def f(x):
            return layer(x) * 2

        return f, lambda: None

    letters, _ = agree(world, *CALLS)
    assert letters == "chhhhh"


def test_other_ways_to_write_are_eagers():
    def world():
        log, out = plain_logger()

        def f(x):
            sys.stdout.write("one\n")
            y = x * 2
            sys.stderr.write("two\n")
            log.info("three", stacklevel=1)
            try:
                raise ValueError("four")
            except ValueError:
                log.info("five", exc_info=False)
            with contextlib.redirect_stdout(out):
                print("six")
            print("seven", [1, 2], {"a": y.sum().item()})
            return y

        return f, out.getvalue

    letters, _ = agree(world, *CALLS)
    assert "h" not in letters


def test_check_compares_calls_made_before_the_writes():
    log, out = plain_logger()
    buffer = torch.zeros(1)

    def f(x):
        y = x.sum()
        log.info("y %s", y)
        buffer.add_(1)
        return y

    fast = mica.compile(f)
    fast(X)
    with mica.stance("check"):
        fast(X)
        fast(X)
    assert out.getvalue() == "y tensor(2.)\n" * 3
    assert buffer.item() == 3.0
