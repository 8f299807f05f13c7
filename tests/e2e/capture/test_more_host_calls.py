"""Further programs that make calls into the world outside."""

import collections
import contextlib
import functools
import io
import logging
import random

import torch
from e2e.capture.twins_of_calls import agree

import mica

X = torch.ones(2)
CALLS = ((X,),) * 7


class Tee:
    def __init__(self):
        self.n = 0
        self.texts = []

    def write(self, t):
        self.n += 1
        self.texts.append(t)

    def flush(self):
        self.n += 100


def log_to(h):
    log = logging.Logger("z", logging.INFO)
    log.addHandler(h)
    return log


def go(world, *c, **k):
    letters, _ = agree(world, *(c or CALLS), **k)
    return letters


def test_flush_runs_the_users_code_too():
    def w():
        t = Tee()

        def f(x):
            y = x * 2
            print("a", y, file=t, flush=True)
            return y

        return f, lambda: (t.n, t.texts)

    go(w)


def test_a_handler_writes_weights_between_two_uses():
    def w():
        layer = torch.nn.Linear(2, 2)
        with torch.no_grad():
            layer.weight.fill_(1)
            layer.bias.fill_(0)

        class H(logging.Handler):
            def emit(self, r):
                layer.weight.data.mul_(1.5)

        log = log_to(H())

        def f(x):
            y = layer(x)
            log.info("x")
            return layer(y)

        return f, lambda: layer.weight

    go(w)


def test_a_count_is_read_before_the_call_that_changes_it():
    def w():
        t = Tee()

        def f(x):
            y = x * t.n
            print("s", file=t)
            return y

        return f, lambda: t.n

    go(w)


def test_a_handler_rebinds_a_variable_of_an_enclosing_function():
    def w():
        n = 0

        class H(logging.Handler):
            def emit(self, r):
                nonlocal n
                n += 1

        log = log_to(H())

        def f(x):
            log.info("a")
            y = x + n
            log.info("b")
            return y * n

        return f, lambda: n

    go(w)


def test_a_module_prints_to_a_stream_of_the_users():
    def w():
        t = Tee()

        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(2, 2)
                with torch.no_grad():
                    self.inner.weight.fill_(1)
                    self.inner.bias.fill_(0)

            def forward(self, x):
                print("in", file=t)
                self.last = x * 2
                return self.inner(x) + t.n

        m = M()
        o = torch.nn.Sequential(m, torch.nn.ReLU())
        return (lambda x: o(x)), lambda: (t.n, getattr(m, "last", None))

    go(w)


def test_text_of_an_object_counts_itself():
    def w():
        class C:
            n = 0

            def __str__(self):
                C.n += 1
                return str(C.n)

        c = C()
        out = io.StringIO()
        log = log_to(logging.StreamHandler(out))

        def f(x):
            log.info("o %s", c)
            return x * C.n

        return f, lambda: (C.n, out.getvalue())

    go(w)


def test_an_exception_is_logged_where_it_is_handled():
    def w():
        out = io.StringIO()
        log = log_to(logging.StreamHandler(out))
        h = []

        def f(x):
            try:
                raise ValueError("a")
            except ValueError:
                log.exception("bad %d", len(h))
            h.append(1)
            return x

        return f, lambda: (len(out.getvalue()) > 0, h)

    go(w)


def test_a_logger_is_switched_off_and_on():
    def w():
        out = io.StringIO()
        log = log_to(logging.StreamHandler(out))

        def f(x):
            log.info("a")
            log.debug("b")
            return x * 2

        f.handle = log
        return f, out.getvalue

    def b(n, log):
        logging.disable(logging.INFO if n in (3, 4) else logging.NOTSET)
        log.disabled = n == 5
        log.manager._clear_cache()
        log._cache.clear()

    try:
        assert go(w, between=b)[1:] == "h" * 6
    finally:
        logging.disable(logging.NOTSET)


def test_draws_before_a_call_that_raises():
    def w():
        r = random.Random(3)
        out = io.StringIO()

        def f(x):
            a = r.random()
            print("a", file=out)
            y = x * a
            z = torch.rand(2)
            print(z.shape, file=out)
            return y

        f.handle = out
        return f, lambda: (r.getstate()[1][-1], r.random())

    def close(n, o):
        if n == 5:
            o.close()

    go(w, between=close)


def test_a_bounded_queue_is_logged_before_and_after_it_grows():
    def w():
        q = collections.deque(maxlen=3)
        out = io.StringIO()
        log = log_to(logging.StreamHandler(out))

        def f(x, k):
            log.info("%s", q)
            q.append(k)
            log.info("%s %r", q, [1])
            return x * k

        return f, lambda: (q, out.getvalue())

    go(w, *((X, k) for k in (1, 2, 3, 1, 2, 3)))


def test_a_dict_is_printed_before_it_changes():
    def w():
        cfg = {"a": [1, 2]}

        def f(x, k):
            print(cfg, cfg["a"])
            if k:
                cfg["a"] = [k]
            return x * k

        return f, lambda: cfg

    go(w, *((X, k) for k in (0, 0, 1, 0, 2, 0, 0, 1)))


def test_a_list_is_printed_before_it_is_replaced():
    def w():
        o = type("O", (), {})()
        o.items = [1]
        out = io.StringIO()

        def f(x, k):
            print(o.items, file=out)
            o.items = [k]
            print(o.items if False else "z", file=out)
            return x

        return f, lambda: (o.items, out.getvalue())

    go(w, *((X, k) for k in (0, 0, 1, 0, 2, 0, 0, 1)))


def test_numbers_are_printed_as_text():
    def w():
        losses = []

        def f(x):
            loss = (x * 2).sum()
            losses.append(loss.item())
            print(f"{len(losses)} {losses[-1]:.2f}")
            return loss

        return f, lambda: losses

    go(w)


def test_a_step_ends_with_a_callback():
    def w():
        calls = []

        def cb(i, v):
            calls.append((i, v))

        mica.annotate(cb, "host")
        p = torch.nn.Parameter(torch.ones(2))
        opt = torch.optim.SGD([p], 0.1)

        def f(x):
            opt.zero_grad()
            log = (p * x).sum()
            log.backward()
            opt.step()
            cb("loss", log.item())
            return log.detach()

        return f, lambda: (calls, p)

    with torch.enable_grad():
        assert go(w).endswith("hhh")


def test_a_callback_in_the_midst_of_a_step_writes_weights_and_raises():
    def w():
        calls = []
        p = torch.nn.Parameter(torch.ones(2))

        def cb(v):
            calls.append(v)
            if len(calls) == 4:
                with torch.no_grad():
                    p.zero_()
            if len(calls) == 6:
                raise RuntimeError("stop")

        mica.annotate(cb, "host")
        opt = torch.optim.SGD([p], 0.1)
        n = [0]

        def f(x):
            n[0] += 1
            opt.zero_grad()
            log = (p * x).sum()
            cb(log.item())
            log.backward()
            opt.step()
            cb("end")
            n.append(1)
            return log.detach()

        return f, lambda: (calls, p, n, p.grad)

    with torch.enable_grad():
        go(w)


def test_a_set_is_counted_in_a_call():
    def w():
        s = set()
        t = Tee()

        def f(x, k):
            s.add(k)
            print("s", len(s), file=t)
            return x * len(t.texts)

        return f, lambda: (s, t.texts)

    go(w, *((X, k) for k in (1, 2, 1, 3, 2, 1)))


def test_an_argument_gets_what_a_call_changes():
    def w():
        t = Tee()

        def f(x, d):
            d["k"] = t.n
            print("s", d["k"], file=t)
            d["l"] = t.n
            return x

        return f, lambda: t.n

    go(w, *((X, {"a": 1}) for k in (1, 2, 1, 3, 2, 1)))


def test_standard_output_is_redirected_in_the_program():
    def w():
        t = Tee()

        def f(x):
            with contextlib.redirect_stdout(t):
                print("in")
            return x * t.n

        return f, lambda: t.n

    go(w)


def test_two_writes_in_a_row_are_counted():
    def w():
        n = [0]

        class F(io.StringIO):
            def write(self, s):
                n[0] += 1
                return super().write(s)

        fl = F()

        def f(x):
            y = x + n[0]
            print("q", file=fl)
            print("r", file=fl)
            return y + n[0]

        return f, lambda: (n, fl.getvalue())

    go(w)


def test_what_was_printed_is_read_back():
    def w():
        out = io.StringIO()

        def f(x):
            print("q", file=out)
            return x * len(out.getvalue())

        return f, out.getvalue

    go(w)


def test_a_files_position_is_asked_for():
    def w():
        out = io.TextIOWrapper(io.BytesIO())

        def f(x):
            print("q", file=out)
            return x * out.tell()

        return f, lambda: 0

    go(w)


def test_a_partial_print_to_a_stream_of_the_users():
    def w():
        t = Tee()
        say = functools.partial(print, file=t)

        def f(x):
            say("a")
            return x * t.n

        return f, lambda: t.n

    go(w)


def test_a_generator_prints():
    def w():
        t = Tee()

        def gen():
            for i in range(3):
                print(i, file=t)
                yield i * t.n

        def f(x):
            for v in gen():
                x = x + v
            return x

        return f, lambda: t.n

    go(w)


def test_a_call_that_raises_before_it_sets_what_the_program_set():
    class Full:
        def __init__(self, box):
            self.box = box
            self.n = 0

        def write(self, text):
            self.n += 1
            if self.n > 8:
                raise OSError("full")
            self.box["a"] = self.n

    def world():
        box = {"a": 0}
        sink = Full(box)

        def program(x):
            box["a"] = -1
            with contextlib.suppress(ZeroDivisionError):
                print("text", file=sink)
            return x

        return program, box

    own, box = world()
    twin, other = world()
    compiled = mica.compile(own)
    for _ in range(7):
        for program in (compiled, twin):
            with contextlib.suppress(OSError):
                program(X)
        assert box == other
    assert box == {"a": -1}
