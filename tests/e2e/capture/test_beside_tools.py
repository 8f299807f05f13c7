"""Capture beside interrupts, forks, profilers, tracers and debuggers."""

import cProfile
import gc
import os
import pstats
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from torch import nn

import mica

X = torch.randn(2, 8)


class Deep(nn.Module):
    """Long enough to be interrupted, or seen by a profiler."""

    def __init__(self, rounds=100):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.rounds = rounds

    def forward(self, x):
        for _ in range(self.rounds):
            x = self.linear(x) * 0.5
        return x


def _run(code, *arguments, text=None):
    return subprocess.run(
        [sys.executable, *arguments, "-c", textwrap.dedent(code)]
        if code
        else [sys.executable, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("microseconds", [200, 1000, 3000, 6000, 12000, 25000])
def test_an_interrupted_capture_leaves_nothing(microseconds):
    model = Deep(300)
    model.seen = 0
    compiled = mica.compile(model)

    def interrupt(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
        compiled(X)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert sys.gettrace() is None and sys.getprofile() is None
    assert not torch.is_grad_enabled()
    for _ in range(3):
        same(compiled(X), model(X))
    assert report(compiled).hits >= 2


def test_an_exception_of_a_signal_handler_is_raised_as_it_is():
    class AlarmError(Exception):
        pass

    def f(x):
        signal.raise_signal(signal.SIGUSR1)
        return x + 1

    def handle(*_):
        raise AlarmError("now")

    compiled = mica.compile(f)
    old = signal.signal(signal.SIGUSR1, handle)
    try:
        for _ in range(3):
            with pytest.raises(AlarmError, match="now"):
                compiled(X)
    finally:
        signal.signal(signal.SIGUSR1, old)


# From 3.12 on, Python warns of a fork beside threads, each time.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_serves_and_records():
    model = Deep(3)
    compiled = mica.compile(model)
    for _ in range(2):
        compiled(X)
    want = model(X)
    child = os.fork()
    if child == 0:
        try:
            fresh = mica.compile(lambda x: x * 2 + 1)
            good = torch.allclose(compiled(X), want)
            for _ in range(3):
                good = good and torch.equal(fresh(X), X * 2 + 1)
            good = good and report(fresh).hits == 2
            os._exit(0 if good else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    same(compiled(X), want)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_in_mid_capture_is_refused():
    def f(x):
        child = os.fork()
        if child == 0:
            os._exit(0)
        return x + 1, os.waitpid(child, 0)[1]

    compiled = mica.compile(f)
    for _ in range(3):
        same(compiled(X), (X + 1, 0))
    assert report(compiled).hits == 0
    assert "fork" in str(report(compiled))


def test_a_profiler_sees_the_watched_run():
    model = Deep(5)
    compiled = mica.compile(model)
    with cProfile.Profile() as profile:
        first = compiled(X)
    names = {key[2] for key in pstats.Stats(profile).stats}
    assert "forward" in names
    same(first, model(X))
    for _ in range(2):
        with cProfile.Profile():
            same(compiled(X), model(X))
    assert report(compiled).hits >= 1


def test_a_profiler_begun_by_the_program_goes_on():
    seen = []

    def f(x):
        sys.setprofile(lambda *_: seen.append(1))
        y = x + 1
        sys.setprofile(None)
        return y

    compiled = mica.compile(f)
    for _ in range(3):
        same(compiled(X), X + 1)
        assert sys.getprofile() is None
        assert seen
        seen.clear()


def test_a_tracer_of_lines_sees_each_line():
    def f(x):
        y = x + 1
        z = y * 2
        return z

    lines = []

    def tracer(frame, event, _):
        if frame.f_code is f.__code__ and event == "line":
            lines.append(frame.f_lineno - f.__code__.co_firstlineno)
        return tracer

    compiled = mica.compile(f)
    sys.settrace(tracer)
    try:
        first = compiled(X)
    finally:
        sys.settrace(None)
    same(first, f(X))
    assert lines == [1, 2, 3]
    for _ in range(3):
        same(compiled(X), f(X))
    assert report(compiled).hits >= 2


@pytest.mark.once("in a process of its own")
def test_a_debugger_stops_in_the_program(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            """
            import torch, mica
            def f(x):
                y = x + 1
                return y * 2
            c = mica.compile(f)
            with torch.no_grad():
                for _ in range(3):
                    print("sum", c(torch.ones(3)).sum().item())
            print("hits", mica.explain(c).hits)
            """
        )
    )
    ran = _run(
        None,
        "-m",
        "pdb",
        str(script),
        text=f"b {script}:4\nc\np x.shape\nclear 1\nc\nq\n",
    )
    assert "torch.Size([3])" in ran.stdout, ran.stdout + ran.stderr
    assert ran.stdout.count("sum 12.0") == 3, ran.stdout + ran.stderr


@pytest.mark.once("in a process of its own")
def test_the_trace_module_counts_lines_and_numbers_stay():
    ran = _run(
        """
        import trace, torch, mica
        def f(x):
            return (x + 1) * 2
        def main():
            c = mica.compile(f)
            for _ in range(4):
                assert torch.equal(c(torch.ones(3)), torch.full((3,), 4.0))
        tracer = trace.Trace(count=True, trace=False)
        with torch.no_grad():
            tracer.runfunc(main)
        print("done")
        """
    )
    assert "done" in ran.stdout, ran.stderr


def test_threads_capture_beside_each_other():
    models = [Deep(20 + i) for i in range(4)]
    wants = [model(X) for model in models]

    def work(model, want):
        with torch.no_grad():
            for _ in range(5):
                compiled = mica.compile(model)
                for _ in range(3):
                    same(compiled(X), want)

    with ThreadPoolExecutor(len(models)) as pool:
        list(pool.map(work, models, wants))


@pytest.mark.parametrize("collects", [False, True])
def test_threads_capture_while_the_collector_works(collects):
    stop = threading.Event()

    def collect():
        while not stop.is_set():
            gc.collect(0)

    def work(seed):
        with torch.no_grad():
            for i in range(10):
                base = torch.full((2, 8), float(seed * 10 + i))
                compiled = mica.compile(
                    lambda x: [x * k for k in range(20)][-1] + base
                )
                for _ in range(4):
                    same(compiled(X), X * 19 + base)

    thresholds = gc.get_threshold()
    gc.set_threshold(3, 2, 2)
    thread = threading.Thread(target=collect)
    try:
        if collects:
            thread.start()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
    finally:
        stop.set()
        if collects:
            thread.join()
        gc.set_threshold(*thresholds)


def test_another_threads_work_is_no_part_of_a_record():
    stop = threading.Event()
    noise = torch.zeros(8)

    def disturb():
        with torch.no_grad():
            while not stop.is_set():
                noise.add_(1)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        model = Deep(50)
        compiled = mica.compile(model)
        for _ in range(3):
            same(compiled(X), model(X))
    finally:
        stop.set()
        thread.join()
    assert report(compiled).hits == 2
    calls = report(compiled).graphs[0].calls
    assert not any("add_" in call for call in calls)


def test_a_call_from_within_its_own_capture():
    depths = []

    def f(x, depth):
        depths.append(depth)
        return x if depth == 0 else compiled(x, depth - 1) + 1

    compiled = mica.compile(f)
    for _ in range(3):
        depths.clear()
        same(compiled(X, 3), X + 3)
        assert depths == [3, 2, 1, 0]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * self.gamma.reshape(1, 8)


def test_what_torch_compile_notes_on_a_parameter_costs_no_record():
    model = Scaled()
    fast = mica.compile(model)
    for _ in range(3):
        fast(X)
    model.gamma._dynamo_static_input_type = "guarded"
    for _ in range(3):
        assert torch.equal(fast(X), model(X))
    assert mica.explain(fast).hits == 5
    # What comes behind the note is seen.
    model.gamma.reshape = lambda *_: torch.zeros(1, 8)
    for _ in range(3):
        assert torch.equal(fast(X), model(X))
    del model.gamma.reshape
    for _ in range(3):
        assert torch.equal(fast(X), model(X))
