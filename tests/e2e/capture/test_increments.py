"""Numbers that a program adds to, in containers that it also reads whole."""

from __future__ import annotations

import copy

import pytest
import torch

import mica


def add_then_list(box, x):
    box["k"] += 1
    return x * len(list(box)) * box["k"]


def add_then_walk(box, x):
    box["k"] += 1
    for key in box:
        x = x * box[key]
    return x


def add_then_sort(box, x):
    box["k"] += 1
    return x * box[sorted(box)[0]]


def add_then_copy(box, x):
    box["k"] += 1
    return x * dict(box)["k"]


def add_then_unpack(box, x):
    box["k"] += 1
    return x * {**box, "j": 2}["k"]


def add_then_sum(box, x):
    box["k"] += 1
    return x * sum(box.values())


def add_then_compare(box, x):
    box["k"] += 1
    return x * (2 if box == {"k": 2.5} else 3)


def add_then_tell(box, x):
    box["k"] += 1
    return x * len(str(box)) * box["k"]


def list_then_add(box, x):
    keys = list(box)
    box["k"] += 1
    return x * box[keys[0]]


PROGRAMS = [
    add_then_list,
    add_then_walk,
    add_then_sort,
    add_then_copy,
    add_then_unpack,
    add_then_sum,
    add_then_compare,
    add_then_tell,
    list_then_add,
]


class Owner:
    def __init__(self):
        self.k = 1.5


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("of_object", [False, True])
def test_a_sum_is_seen_by_who_reads_all(program, of_object):
    own = Owner() if of_object else {"k": 1.5}
    twin = copy.deepcopy(own)

    def run(owner, x):
        return program(vars(owner) if of_object else owner, x)

    compiled = mica.compile(lambda x: run(own, x), exact=True)
    for _ in range(5):
        wanted = run(twin, torch.ones(2))
        assert torch.equal(compiled(torch.ones(2)), wanted)
    assert (vars(own) if of_object else own) == (
        vars(twin) if of_object else twin
    )


def test_an_attribute_that_is_added_to_is_seen_in_vars():
    own, twin = Owner(), Owner()

    def run(owner, x):
        owner.k += 1
        return x * owner.k * len(vars(owner))

    compiled = mica.compile(lambda x: run(own, x), exact=True)
    for _ in range(5):
        assert torch.equal(compiled(torch.ones(2)), run(twin, torch.ones(2)))
