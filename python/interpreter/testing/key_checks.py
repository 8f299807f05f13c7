"""What keys.h does to the places of keys and members."""

from __future__ import annotations

import collections
import random
import sys
from collections.abc import Callable
from typing import Any

import mica_interpreter_testing as stream
from checks import check


class Dict(dict):
    pass


@check
def keys_are_replaced_by_equal_ones_and_nothing_else_changes() -> None:
    made = [stream.new_int(n) for n in (3, 4, 11, -2)]
    kinds: list[Callable[[Any], Any]] = [
        dict,
        Dict,
        collections.OrderedDict,
        collections.Counter,
        lambda pairs: collections.defaultdict(list, pairs),
        lambda pairs: {key for key, _ in pairs},
        lambda pairs: frozenset(key for key, _ in pairs),
    ]
    for kind in kinds:
        for keys in ([*made], ["a", *made, (1,)], ["a", "b"], []):
            kept = kind([(key, 1) for key in keys])
            order = list(kept)
            items, text = iter(kept), repr(kept)
            held = [sys.getrefcount(key) for key in order]
            stream.replace_keys(kept, [(n, int(n) + 0) for n in made])
            assert list(items) == list(kept) == order
            now = [sys.getrefcount(key) for key in order]
            assert list(map(type, kept)) == list(map(type, order))
            for key, was, count, before in zip(
                list(kept), order, now, held, strict=True
            ):
                assert key in kept
                assert (key is was) is (type(key) is not int)
                assert key is was or count < before
            assert repr(kept) == text
            if isinstance(kept, dict) and order:
                del kept[order[0]]
                kept[order[0]] = 2
                assert list(kept) == [*order[1:], order[0]]


@check
def sets_are_made_again_as_they_were() -> None:
    rng = random.Random(1)
    pool = [*range(-3, 60), *map(str, range(40)), *(n / 8 for n in range(40))]
    for number in range(300):
        made: Any = set()
        for _ in range(rng.randrange(80) if number % 3 else rng.randrange(7)):
            one = rng.choice(pool)
            rng.choice([made.add, made.add, made.discard])(one)
        if number % 5 == 0 and made:
            made.pop()
        if number % 4 == 0:
            made = frozenset(made)
        again = stream.like_set(made, list(made))
        assert type(again) is type(made) and again is not made
        assert list(again) == list(made) and hash(repr(again))
        if isinstance(made, set):
            for other in (made, again):
                for one in range(50, 90):
                    other.add(one)
                other.discard(51)
            assert list(again) == list(made)
            assert [again.pop() for _ in range(9)] == [
                made.pop() for _ in range(9)
            ]
    # Members of other hashes are added.
    assert stream.like_set({1, 2, 3}, [4, 5, 6]) == {4, 5, 6}
    assert stream.like_set({1, 2}, [4, 5, 6]) == {4, 5, 6}
    assert stream.like_set(set(), []) == set()
    try:
        stream.like_set({1}, [[]])
    except TypeError:
        pass
    else:
        raise AssertionError
