"""What a record drew before it turned out not to fit is drawn again."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from e2e.capture.draws_of_calls import (
    CALLS,
    plain,
    seed,
    states,
    twins,
    vector,
)

import mica


def mixed(i):
    """Tensors whose sum is now above, now below zero."""
    return (torch.arange(4.0) - (i * 7) % 13,)


def by_data_then_draw(a):
    if a.sum().item() > 0:
        return a * random.random() + np.random.randn()
    return a + random.gauss(0.0, 1.0)


def by_draw_then_data(a):
    number = random.random()
    if (a * number).sum().item() > 0:
        number += random.random()
    return a * number


def by_both(a):
    # The data are compared with what is drawn.
    if a.mean().item() > random.uniform(-6.0, 6.0):
        return a * np.random.rand()
    return -a


def by_chance_and_data(a):
    if random.random() < 0.3:
        a = a + np.random.randn()
    if bool((a > 0).all()):
        a = a * random.gauss(0.0, 1.0)
    return a + torch.rand(4)


@pytest.mark.parametrize(
    ("program", "graphs"),
    [
        (by_data_then_draw, 2),
        (by_draw_then_data, 2),
        (by_both, 2),
        (by_chance_and_data, 3),
    ],
)
def test_undone_where_the_data_go_another_way(program, graphs):
    compiled, letters = twins(plain(program), mixed)
    assert letters.count("c") == len(report(compiled).graphs) == graphs
    assert letters.count("h") == CALLS - graphs


def test_a_size_of_the_data_undoes_draws():
    def program(a):
        kept = a[a > 0]
        return kept * random.random() + np.random.randn()

    _, letters = twins(plain(program), mixed)
    # Where runs are discarded it is asked what eager calls take.
    assert {"c", "h"} <= set(letters) <= {"c", "h", "e"}


class UnluckyError(Exception):
    pass


def raises_by_chance(a):
    first = random.random()
    if np.random.rand() < 0.25:
        raise UnluckyError(f"drew {first}")
    return a * first + np.random.randn()


def catches_by_chance(a):
    try:
        if random.random() < 0.4:
            raise UnluckyError
        a = a * random.random()
    except UnluckyError:
        a = a + np.random.rand()
    return a * random.random()


def shapes_by_chance(a):
    number = random.random()
    return a @ a if number < 0.2 else a.reshape(2, 2) @ a.reshape(2, 2) * number


def invalid(a):
    random.random()
    try:
        low = np.random.randint(5, 2)
    except ValueError:
        low = random.randint(0, 1)
    return a + low


def test_exceptions_between_draws():
    _, letters = twins(plain(raises_by_chance))
    assert 3 < letters.count("x") < 16
    assert letters.replace("x", "") == "c" + "h" * (
        CALLS - letters.count("x") - 1
    )
    _, letters = twins(plain(catches_by_chance))
    assert letters.count("c") == 2
    assert letters.count("h") == CALLS - 2
    twins(plain(shapes_by_chance))
    twins(plain(invalid))


def test_an_exception_of_a_kernel_undoes_draws():
    def program(a, b):
        return (a * random.random())[b] + np.random.randn()

    def args(i):
        return torch.arange(4.0), torch.tensor([i % 5, 0])

    _, letters = twins(plain(program), args)
    assert letters.count("x") == CALLS // 5
    assert letters.count("h") >= CALLS - CALLS // 5 - 2


def test_a_call_that_no_record_may_serve_draws_nothing():
    def program(a):
        return a * 2 if random.random() < 0.5 else a + np.random.randn()

    compiled = mica.compile(program)
    seed()
    numbers = [random.random() for _ in range(20)]
    first = numbers[0] < 0.5
    other = next(i for i, n in enumerate(numbers) if (n < 0.5) is not first)
    seed()
    for i in range(other):
        compiled(*vector(i))
    before = states()
    with mica.stance("fail_on_recompile"):
        for _ in range(3):
            with pytest.raises(
                mica.CaptureError, match="comparison of numbers"
            ):
                compiled(torch.ones(4))
            assert states() == before
    compiled(torch.ones(4))
    assert len(report(compiled).graphs) == 2


def holding():
    own = random.Random(3)
    legacy = np.random.RandomState(4)
    numpys = np.random.default_rng(5)

    def program(a):
        if own.random() < 0.5:
            a = a * legacy.randn()
        return a + own.gauss(0.0, 1.0) if numpys.random() < 0.5 else a

    return program, (own, legacy, numpys)


@pytest.mark.parametrize(
    ("program", "captures"),
    [
        (plain(by_both), 2),
        (plain(lambda a: a * np.random.beta(0.5, 0.5)), 1),
        (plain(lambda a: a * 2 if random.random() < 0.5 else a + 1), 2),
        (plain(raises_by_chance), 1),
        (holding, 4),
    ],
)
def test_check_draws_once(program, captures):
    compiled, _ = twins(program, mixed, stance="check")
    told = report(compiled)
    assert len(told.graphs) == captures
    assert told.hits > CALLS // 2


def test_check_tells_the_program_what_the_record_was_told():
    asked = iter(range(1000))

    def ask() -> float:
        return float(next(asked))

    mica.annotate(ask, "number")
    compiled = mica.compile(lambda a: (a * ask(), ask()))
    start = mica.compile(lambda a: (time.perf_counter(), a + 1)[1])
    at = mica.compile(lambda a: a * time.time())
    last = -1.0
    with mica.stance("check"):
        for _ in range(10):
            scaled, number = compiled(torch.ones(()))
            assert number == float(scaled) + 1
            assert number > last
            last = number
            same(start(torch.ones(2)), torch.full((2,), 2.0))
            assert at(torch.ones((), dtype=torch.float64)) > 1e9
    for fn in (compiled, start, at):
        assert report(fn).hits == 9
        assert not report(fn).refusals


LIBRARY = torch.library.Library("mica_draws_test", "DEF")
LIBRARY.define("wait(Tensor a) -> Tensor")
OTHERS: list[float] = []


def _draw_elsewhere() -> None:
    thread = threading.Thread(target=lambda: OTHERS.append(random.random()))
    thread.start()
    thread.join()


mica.annotate(_draw_elsewhere, "pure")


def _wait(a):
    """While the program computes, another thread draws."""
    _draw_elsewhere()
    return a.clone()


LIBRARY.impl("wait", _wait, "CPU")
WAIT = torch.ops.mica_draws_test.wait.default


def test_another_threads_numbers_do_not_come_again():
    def program(a):
        number = random.random()
        a = WAIT(a)
        return a * 0 + number if a.sum().item() > 0 else a * 0 - number

    compiled = mica.compile(program)
    one = torch.ones((), dtype=torch.float64)
    OTHERS.clear()
    seed()
    got = [abs(float(compiled(-one if i % 3 else one))) for i in range(9)]
    assert report(compiled).hits == 7
    told = [*got, *OTHERS]
    assert len(set(told)) == len(told)
    seed()
    drawn = {random.random() for _ in range(len(told) + 9)}
    assert drawn.issuperset(told)
