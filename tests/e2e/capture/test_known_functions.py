"""Functions in C that the table lists, and random generators of Python."""

import bisect
import heapq
import random
import struct

import numpy as np
import pytest
import torch
from e2e.capture.agreement_of_calls import report, same, x
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import mica


def sorted_in(x):
    items = [1, 5, 9]
    bisect.insort(items, 4)
    heapq.heapify(items)
    heapq.heapreplace(items, 7)
    return x * sum(items) + heapq.heappushpop(items, 3)


def packed(x):
    return x * struct.unpack("<i", struct.pack("<i", 7))[0]


def translated(x):
    return x * len("aba".translate(str.maketrans("a", "b")))


def attributes(x):
    return x * vars(BOX)["size"]


def own_generator(x):
    draw = random.Random(7)
    return x * draw.random() + draw.randint(1, 100) + draw.uniform(0.0, 1.0)


class Box:
    def __init__(self):
        self.size = 3


BOX = Box()


@pytest.mark.parametrize(
    "program", [sorted_in, packed, translated, attributes, own_generator]
)
def test_served(program):
    fn = mica.compile(program)
    for _ in range(3):
        assert torch.equal(fn(torch.ones(2)), program(torch.ones(2)))
    assert mica.explain(fn).hits == 2, str(mica.explain(fn))


def test_what_vars_shows_is_guarded():
    fn = mica.compile(attributes)
    fn(torch.ones(1))
    fn(torch.ones(1))
    BOX.size = 5
    try:
        assert fn(torch.ones(1)).item() == 5.0
    finally:
        BOX.size = 3
    assert fn(torch.ones(1)).item() == 3.0


SHARED = random.SystemRandom()


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * random.Random().random(),
        lambda x: x * float(np.random.RandomState().rand()),
        lambda x: x * SHARED.random(),
    ],
)
def test_draws_that_no_record_repeats_are_refused(program):
    fn = mica.compile(program)
    results = {fn(torch.ones(1)).item() for _ in range(4)}
    assert len(results) == 4
    assert not mica.explain(fn).graphs


def test_a_list_of_the_state_that_a_function_changes_is_refused():
    class Holder:
        items = [1, 2]

    holder = Holder()

    def program(x):
        bisect.insort(holder.items, 3)
        return x * len(holder.items)

    fn = mica.compile(program)
    for count in (3, 4, 5):
        assert fn(torch.ones(1)).item() == count


def on_what_there_is(a):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    a = a.to(device, non_blocking=True)
    if torch.backends.cudnn.enabled:
        a = a * 2
    if torch.backends.cudnn.is_available() or torch.backends.mps.is_available():
        a = a + 1
    if torch.backends.mkldnn.is_available():
        a = a + 2
    return a * (1 + torch.cuda.device_count()) * torch.get_num_threads()


def test_what_torch_runs_on_is_asked():
    compiled = mica.compile(on_what_there_is)
    threads = torch.get_num_threads()
    try:
        for call in range(8):
            torch.set_num_threads(1 + (call == 7))
            with torch.backends.cudnn.flags(enabled=call < 4):
                same(compiled(x(call)), on_what_there_is(x(call)))
        assert report(compiled).hits >= 5, str(report(compiled))
    finally:
        torch.set_num_threads(threads)


def test_attention_by_the_backend_that_the_program_asks_for():
    def f(a):
        q = a.reshape(1, 3, 2, 2)
        with sdpa_kernel(SDPBackend.MATH):
            first = scaled_dot_product_attention(q, q, q)
        return first, scaled_dot_product_attention(q, q, q)

    compiled = mica.compile(f, exact=True)
    try:
        for call in range(8):
            torch.backends.cuda.enable_flash_sdp(call < 4)
            same(compiled(x(call)), f(x(call)))
        assert report(compiled).hits == 6, str(report(compiled))
        names = [set(graph.ops) for graph in report(compiled).graphs]
        flash = [
            any("flash_attention" in name for name in ops) for ops in names
        ]
        assert sorted(flash) == [False, True]
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
