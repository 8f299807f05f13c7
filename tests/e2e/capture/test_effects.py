"""What leaves the dispatcher, and what a program does beside computing."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import logging
import random
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import X, check, report, same, x
from torch import nn

import mica


def test_item_branches():
    def f(a):
        if a.sum() > 0:
            return a + 1
        return a - 1

    check(f, (x(0).abs(),), (-x(0).abs(),), (x(1).abs(),), (-x(1).abs(),))


def test_a_number_that_constants_decide_is_no_check():
    def f(a):
        steps = torch.arange(4)
        if (steps.diff() == 1).all():
            return a * int(steps.sum())
        return a - 1

    c = check(f, (x(0),), (x(1),))
    [graph] = mica.explain(c).graphs
    assert "aten._local_scalar_dense" in graph.calls
    assert not any("diff" in op or "all" in op for op in graph.ops)


def test_item_flows_through_containers():
    def f(a):
        flag = (a.sum() > 0).item()
        d = {"k": (flag, 1)}

        def inner(t, keep=d["k"][0]):
            return t + 1 if keep else t - 1

        return inner(a), flag

    check(f, (x(0).abs(),), (-x(0).abs(),), (x(1).abs(),))


def test_tolist_numpy_and_prints():
    def f(a):
        return a * a.tolist()[0][0]

    check(f, (x(0),), (x(1),), (x(2),))

    def g(a):
        return a * float(a.numpy().sum())

    check(g, (x(0),), (x(1),), (x(2),))

    def h(a):
        return a + len(str(a))

    check(h, (x(0),), (x(1) * 1e9,), (x(2),))

    def i(a):
        return a * max(a.flatten())

    check(i, (x(0),), (x(1),), (x(2),))


def test_data_dependent_sizes():
    check(lambda a: a[a > 0], (x(0),), (x(1),), (x(2),))
    check(lambda a: torch.nonzero(a > 0).shape[0], (x(0),), (x(1),))


def test_equal_and_allclose():
    check(
        lambda a, b: 1 if torch.equal(a, b) else 2,
        (x(0), x(0)),
        (x(0), x(1)),
        (x(0), x(0)),
    )
    check(
        lambda a, b: a + 1 if torch.allclose(a, b) else b,
        (x(0), x(0)),
        (x(0), x(1)),
        (x(0), x(0)),
    )


def test_print(capsys):
    def f(a):
        print("here")
        return a + 1

    c = mica.compile(f)
    for _ in range(6):
        same(c(X), f(X))
    assert capsys.readouterr().out.count("here") == 12
    assert report(c).hits == 5

    def g(a):
        print(a.shape, 2.5, None, sep=":", end="!\n")
        print("to stderr", file=sys.stderr)
        print(*("x", "y"), **{"sep": ""})
        return a + 1

    c = mica.compile(g)
    for rows in (2, 3, 2, 3):
        c(x(0, rows, 4))
        got = capsys.readouterr()
        g(x(0, rows, 4))
        assert got == capsys.readouterr()
    assert report(c).hits == 2


def test_print_of_what_may_differ(capsys):
    def elsewhere(a):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print("kept")
        return a * len(out.getvalue())

    def of_an_object(a):
        print(Loud())
        return a

    class Loud:
        def __str__(self):
            return f"{next(COUNTER)}"

    for f in (elsewhere, of_an_object):
        c = mica.compile(f)
        for seed in range(3):
            same(c(x(seed)), f(x(seed)))
        assert report(c).hits == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(set(lines))


def test_warnings():
    def inner(a):
        warnings.warn("old way", DeprecationWarning, stacklevel=2)
        return a + 1

    def f(a):
        b = inner(a)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("never", stacklevel=1)
        warnings.warn(UserWarning("again"), stacklevel=1)
        return torch.nn.functional.softmax(b)  # Of no axis: torch warns.

    def seen_by(fn, mode):
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter(mode)
            for seed in range(4):
                fn(x(seed))
        return [
            (str(w.message), w.category, w.filename, w.lineno) for w in seen
        ]

    for mode in ("always", "default", "once", "module", "ignore"):
        compiled = mica.compile(f)
        assert seen_by(compiled, mode) == seen_by(f, mode)
        assert report(compiled).hits == 3
    assert len(seen_by(f, "always")) == 12


def test_a_warning_that_became_an_error():
    def f(a):
        warnings.warn("careful", stacklevel=1)
        return a + 1

    compiled = mica.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(3):
            compiled(x(seed))
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="careful"):
            compiled(x(0))
    # Which warnings are errors is a fact of the record.
    assert report(compiled).hits == 2
    assert report(compiled).misses_by_kind == {"state": 1}


def test_a_form_of_warnings_that_are_recorded(monkeypatch):
    def f(a):
        warnings.warn("careful", stacklevel=1)
        return a + 1

    # Not asked where warnings are recorded.
    monkeypatch.setattr(warnings, "formatwarning", None)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        check(f, (x(0),), (x(1),), (x(2),), hits=2)


_FORMS = """
import sys, warnings, torch, mica

def form(message, category, filename, lineno, line=None):
    return f"{message} of a form\\n"

def hits():
    def f(a):
        warnings.warn("careful", stacklevel=1)
        return a + 1
    compiled = mica.compile(f)
    for _ in range(3):
        compiled(torch.ones(2))
    return mica.explain(compiled).hits

warnings.simplefilter("always")
warnings.simplefilter("ignore", mica.MicaWarning)
warnings.formatwarning = form
of_users = hits()
form.__module__ = "lightning.fabric.utilities.warnings"
form.__name__ = "_custom_format_warning"
print(of_users, hits())
"""


def test_forms_of_warnings():
    """One of the user's may do anything; Lightning's makes a text."""
    done = subprocess.run(
        [sys.executable, "-c", _FORMS],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["0", "2"]
    assert done.stderr.count("careful of a form\n") == 6


def test_a_warning_of_the_callers_line():
    def f(a):
        warnings.warn("you", stacklevel=2)
        return a + 1

    compiled = mica.compile(f)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            compiled(X)
            compiled(X)
    lines = {w.lineno for w in seen if w.category is UserWarning}
    assert len(lines) == 2


@pytest.mark.parametrize(
    "source",
    [
        lambda: time.time(),
        lambda: time.perf_counter(),
        lambda: random.random(),
        lambda: np.random.rand(),
        lambda: next(COUNTER),
        lambda: float(id(object()) % 7 + 7 * next(COUNTER)),
    ],
)
def test_values_from_outside(source):
    def f(a):
        return a * 0 + source()

    c = mica.compile(f)
    values = {c(torch.zeros(1, dtype=torch.float64)).item() for _ in range(6)}
    assert len(values) == 6


COUNTER = iter(range(1000))


def test_generator_state():
    def numbers():
        n = 0.0
        while True:
            yield n
            n += 1

    stream = numbers()

    def f(a):
        return a + next(stream)

    c = mica.compile(f)
    assert [c(torch.zeros(1)).item() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_effects_behind_c_callbacks(capsys):
    def f(a):
        list(map(print, [1, 2]))
        return a + 1

    c = mica.compile(f)
    for _ in range(4):
        c(X)
    assert capsys.readouterr().out == "1\n2\n" * 4

    def g(a):
        functools.reduce(lambda p, q: q, map(print, [3]))
        return a

    c = mica.compile(g)
    for _ in range(3):
        c(X)
    assert capsys.readouterr().out == "3\n" * 3

    say = functools.partial(print, "x")

    def h(a):
        say()
        return a

    c = mica.compile(h)
    for _ in range(3):
        c(X)
    assert capsys.readouterr().out == "x\n" * 3


@pytest.mark.once("the file grows")
def test_file_and_log(tmp_path, caplog):
    log = logging.getLogger("mica.test")
    path = tmp_path / "out.txt"

    def f(a):
        with open(path, "a") as out:
            out.write("line\n")
        log.warning("hello")
        return a + 1

    c = mica.compile(f)
    for _ in range(4):
        c(X)
    assert path.read_text().count("line") == 4
    assert len(caplog.records) == 4


class Lines(logging.Handler):
    """Keeps what a log file would have."""

    def __init__(self):
        super().__init__()
        self.lines = []
        self.setFormatter(
            logging.Formatter(
                "%(levelname)s %(funcName)s:%(lineno)d %(message)s"
            )
        )

    def emit(self, record):
        self.lines.append(self.format(record))


LOG = logging.getLogger("mica.test.effects")
ADAPTER = logging.LoggerAdapter(LOG, {"part": 1})


def logs(a):
    b = a * 2
    LOG.warning("shape %s", tuple(b.shape))
    LOG.debug("not always")
    LOG.info("mean %.4f", b.mean().item())
    LOG.log(logging.ERROR, "all %s", b)
    return b


def logs_by_an_adapter(a):
    ADAPTER.warning("adapted")
    return a + 1


def logs_its_stack(a):
    LOG.warning("from", stack_info=True)
    return a + 1


class Own(logging.Logger):
    def _log(self, level, msg, *args, **kwargs):
        super()._log(level, f"own {msg}", *args, **kwargs)


OWN = Own("mica.test.own")


def logs_in_its_own_way(a):
    OWN.warning("text")
    return a + 1


@pytest.mark.parametrize(
    ("f", "hits"),
    [
        (logs, 5),  # Reads nothing that the handler could have changed.
        (logs_by_an_adapter, 0),
        (logs_its_stack, 0),
        (logs_in_its_own_way, 0),
    ],
)
def test_loggers_are_called_again_from_the_same_line(f, hits):
    handler = Lines()
    OWN.addHandler(handler)
    LOG.addHandler(handler)
    LOG.propagate = False
    c = mica.compile(f)
    try:
        for call in range(6):
            LOG.setLevel(logging.DEBUG if call in (2, 3) else logging.INFO)
            handler.setLevel(logging.ERROR if call == 5 else logging.DEBUG)
            want = f(X + call)
            said = handler.lines.copy()
            handler.lines.clear()
            same(c(X + call), want)
            assert len(said) == len(handler.lines)
            if f is not logs_its_stack:  # Of this function's two lines.
                assert handler.lines == said
            handler.lines.clear()
        assert mica.explain(c).hits == hits, str(mica.explain(c))
    finally:
        LOG.removeHandler(handler)
        OWN.removeHandler(handler)


def test_appends_to_outside_list():
    seen = []

    def f(a):
        seen.append(a.shape[0])
        return a + 1

    c = mica.compile(f)
    for _ in range(5):
        c(X)
    assert seen == [3] * 5


def draw_two(a):
    return torch.nn.functional.dropout(a, 0.5) + torch.rand(4)


def draw_one_unused(a):
    torch.rand(3)
    return a + torch.rand(4)


@pytest.mark.parametrize("f", [draw_two, draw_one_unused])
def test_random_numbers_follow_the_generator(f):
    c = mica.compile(f)
    torch.manual_seed(1)
    got = [c(X) for _ in range(4)]
    torch.manual_seed(1)
    want = [f(X) for _ in range(4)]
    same(got, want)


def test_manual_seed_inside():
    def f(a):
        torch.manual_seed(3)
        return a + torch.rand(4)

    c = mica.compile(f)
    for _ in range(4):
        same(c(X), f(X))
        torch.rand(5)


def test_explicit_generator():
    g, h = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    c = mica.compile(lambda a: a + torch.rand(4, generator=g))
    for _ in range(4):
        same(c(X), X + torch.rand(4, generator=h))


def test_batch_norm_statistics():
    mine = nn.BatchNorm1d(4)
    plain = copy.deepcopy(mine)
    c = mica.compile(mine)
    for seed in range(4):
        same(c(x(seed, 5, 4)), plain(x(seed, 5, 4)))
        same(dict(mine.state_dict()), dict(plain.state_dict()))
    assert mine.num_batches_tracked.item() == 4


def test_writes_to_inputs_bump_versions():
    def f(a, b):
        a.add_(b)
        b[0] = 7.0
        return a.sum()

    c = mica.compile(f)
    for seed in range(4):
        a, b = x(seed), x(seed + 1)
        p, q = a.clone(), b.clone()
        versions = a._version, b._version
        same(c(a, b), f(p, q))
        same([a, b], [p, q])
        assert a._version > versions[0]
        assert b._version > versions[1]
    assert report(c).hits == 3


def test_data_assignment_and_grad_flags():
    w = nn.Parameter(x(3))

    def f(a):
        w.data = w.data + 1
        return a * w.detach()

    c = mica.compile(f)
    for k in range(1, 5):
        same(c(X), X * (x(3) + k))


def test_detach_and_data_views_share():
    w = nn.Parameter(x(3))

    def f(a):
        w.data.add_(1)
        return a * w.detach()

    c = mica.compile(f)
    for k in range(1, 5):
        same(c(X), X * (x(3) + k))


@pytest.mark.once("torch.compile keeps what it made")
def test_modules_made_inside_after_torch_compile_ran():
    """Torch.compile then notes the age of every module in a table."""
    torch.compile(nn.Linear(4, 2), backend="eager")(X)

    def f(a):
        return nn.Softmax(dim=-1)(a) + 1

    check(f, (X,), (X + 1,), (X + 2,), hits=2)
