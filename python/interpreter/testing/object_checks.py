"""What interpreter.h tells of objects: versions, insides and ages."""

from __future__ import annotations

import collections
import functools
import gc
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import mica_interpreter_testing as stream
from checks import Plain, check


def set_x(owner: Any, value: Any) -> None:
    owner.x = value


# ---- Versions of dicts and types.


def versions(watched: dict, changes: list[Callable[[], Any]]) -> list[int]:
    """A dict's version at first and after each of some changes."""
    seen = [stream.dict_version(watched)]
    for change in changes:
        change()
        seen.append(stream.dict_version(watched))
    return seen


@check
def a_dicts_version_changes_with_each_change_and_not_without() -> None:
    d: dict[Any, Any] = {"a": 1, "b": 2}
    assert stream.dict_version(d) == stream.dict_version(d)
    before = stream.dict_version(d)
    d.get("a"), "a" in d, list(d), d == {}, d.copy()
    assert stream.dict_version(d) == before
    seen = versions(
        d,
        [
            lambda: d.update(a=7),
            lambda: d.__setitem__("c", 1),
            lambda: d.__delitem__("c"),
            lambda: d.setdefault("e", 3),
            lambda: d.pop("e"),
            lambda: d.popitem(),
            lambda: d.__ior__({"a": 9}),
            lambda: d.clear(),
            lambda: d.update({1: 2, "a": 1}),
        ],
    )
    assert len(set(seen)) == len(seen), seen


@check
def a_version_never_comes_back() -> None:
    d = {"a": 1}
    seen = {stream.dict_version(d)}
    for _ in range(1000):
        d["a"] = 2
        seen.add(stream.dict_version(d))
        d["a"] = 1
        seen.add(stream.dict_version(d))
    assert len(seen) == 2001, len(seen)
    others = {stream.dict_version({"a": i}) for i in range(100)}
    assert not others & seen


@check
def attributes_change_the_version_of_their_dict() -> None:
    for make in (
        lambda o: o.__dict__,  # Python made it,
        stream.instance_dict,  # or we did.
    ):
        owner = Plain()
        set_x(owner, 0)
        d = make(owner)
        assert d is owner.__dict__ and d is stream.instance_dict(owner)
        seen = [stream.dict_version(d)]
        for i in range(300):  # Past the interpreter's specialisation.
            set_x(owner, -1000 - i)
            seen.append(stream.dict_version(d))
        del owner.x
        seen.append(stream.dict_version(d))
        owner.x = 1
        seen.append(stream.dict_version(d))
        owner.z = 1
        seen.append(stream.dict_version(d))
        setattr(owner, "x", 2)
        seen.append(stream.dict_version(d))
        owner.__init__()
        seen.append(stream.dict_version(d))
        d["y"] = 9
        seen.append(stream.dict_version(d))
        assert len(set(seen)) == len(seen), seen
        assert owner.y == 9 and list(d) == ["y", "x", "z"], d


@check
def looking_at_a_version_changes_nothing_of_the_dict() -> None:
    for owner, want in (
        (Plain("a", "b"), {"x": "a", "y": "b"}),
        (type("Empty", (), {})(), {}),
    ):
        d = owner.__dict__
        stream.dict_version(d)
        assert d == want and list(d) == list(want)
        assert owner.__dict__ is d
        owner.y = 5
        assert d["y"] == 5
        assert type(owner)().__dict__.keys() == want.keys()


@check
def a_replaced_dict_is_the_instances() -> None:
    owner = Plain()
    old = stream.instance_dict(owner)
    owner.__dict__ = {"x": 5}
    assert stream.instance_dict(owner) is owner.__dict__ is not old
    assert stream.instance_dict(3) is None
    assert stream.instance_dict(Slots()) is None
    assert stream.instance_dict(len) is None
    function = lambda: 1  # noqa: E731
    function.note = 1
    assert stream.instance_dict(function) == {"note": 1}


if sys.version_info >= (3, 13):

    @check
    def before_its_version_is_asked_a_dict_may_share_the_objects_values() -> (
        None
    ):
        """Why OwnValues() is: neither tag nor watcher tells of such writes."""
        import ctypes

        def tag(d: dict) -> int:
            return ctypes.c_uint64.from_address(id(d) + 24).value >> 12

        events = []

        @ctypes.CFUNCTYPE(
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )
        def watch(event, d, key, value):
            events.append(event)
            return 0

        watcher = ctypes.pythonapi.PyDict_AddWatcher(watch)
        owner = Plain()
        d = owner.__dict__
        ctypes.pythonapi.PyDict_Watch(watcher, ctypes.py_object(d))
        before = tag(d)
        owner.x = 1000
        silent = tag(d) == before and not events
        stream.dict_version(d)
        events.clear()
        before = tag(d)
        owner.x = 2000
        ctypes.pythonapi.PyDict_Unwatch(watcher, ctypes.py_object(d))
        ctypes.pythonapi.PyDict_ClearWatcher(watcher)
        assert tag(d) != before and events, (tag(d), before, events)
        # A later 3.13 may tell; then this can go, with OwnValues().
        assert silent or sys.version_info[:3] > (3, 13, 0)


@check
def a_types_version_changes_with_it_and_its_bases() -> None:
    class Base:
        n = 1

    class Derived(Base):
        pass

    seen = [stream.type_version(Derived)]
    assert seen[0] != 0 and stream.type_version(Derived) == seen[0]
    for change in (
        lambda: setattr(Derived, "m", 2),
        lambda: setattr(Base, "n", 3),
        lambda: delattr(Derived, "m"),
    ):
        change()
        seen.append(stream.type_version(Derived))
    assert len(set(seen)) == len(seen) and 0 not in seen, seen
    assert stream.type_version(Base) not in seen


# ---- Insides of objects.


class Slots:
    __slots__ = ("a", "b")


class SlotsAndMore(Slots):
    pass


@check
def generators_and_whether_they_wait() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        assert not stream.is_suspended(made)
        yield from (x for x in (2, 3))

    made = numbers()
    assert stream.is_generator(made) and not stream.is_suspended(made)
    next(made)
    assert stream.is_suspended(made)
    next(made)  # In `yield from` now.
    assert stream.is_suspended(made)
    assert list(made) == [3]
    assert not stream.is_suspended(made)

    async def later() -> int:
        return 1

    async def laters() -> Any:
        yield 1

    coroutine = later()
    assert stream.is_generator(coroutine)
    assert not stream.is_suspended(coroutine)
    coroutine.close()
    assert stream.is_generator(laters())
    assert not stream.is_generator(iter([1]))


@check
def slots_and_their_values() -> None:
    owner = Slots()
    owner.a = [1]
    assert stream.slot_value(owner, Slots.a) is owner.a
    assert stream.slot_value(owner, Slots.b) is None
    assert stream.has_slots(Slots) and stream.has_slots(SlotsAndMore)
    assert not stream.has_slots(Plain)
    assert not stream.has_slots(list)
    # A member of C's own, which is no slot.
    assert stream.slot_value(set_x, types.FunctionType.__globals__) is None


@check
def classes_made_in_python_and_what_they_build_on() -> None:
    class Items(list):
        pass

    class More(Items):
        __slots__ = ()

    for made in (Plain, Slots, Items, More, collections.Counter):
        assert stream.is_python_class(made), made
    for other in (int, list, types.ModuleType, collections.deque, type):
        assert not stream.is_python_class(other), other
    assert stream.solid_base(More) is list
    assert stream.solid_base(Plain) is object
    assert stream.solid_base(dict) is dict
    assert stream.deque_type() is collections.deque


@check
def supers_and_proxies() -> None:
    class Derived(Plain):
        pass

    made = super(Plain, Derived())
    assert stream.super_type(made) is Derived
    assert stream.super_type(super(Plain, Derived)) is Derived
    assert stream.super_type(3) is None
    d = {"a": 1}
    assert stream.proxied(types.MappingProxyType(d)) is d


@check
def results_that_lru_cache_keeps() -> None:
    for size in (None, 8):

        @functools.lru_cache(maxsize=size)
        def squared(n: int) -> list[int]:
            return [n * n]

        squared.note = "an attribute is no result"
        assert stream.lru_results(squared) == []
        kept = [squared(2), squared(3)]
        assert stream.lru_results(squared) == kept
        assert stream.lru_results(squared)[0] is kept[0]
        squared.cache_clear()
        assert stream.lru_results(squared) == []


@check
def ints_in_objects_of_their_own_are_ints() -> None:
    for n in (0, 1, -1, -5, 7, 256, 257, 2**30 - 1, 2**30, -(2**31), 2**52):
        made = stream.new_int(n)
        assert made == n and made is not n and type(made) is int
        assert stream.new_int(n) is not made
        assert hash(made) == hash(n) and repr(made) == repr(n)
        assert made + 1 == n + 1 and -made == -n and made * made == n * n
        assert made // 3 == n // 3 and made.bit_length() == n.bit_length()
        assert bool(made) == bool(n) and float(made) == n


# ---- Ages.


@check
def ages_tell_objects_made_after_a_mark() -> None:
    old = [[] for _ in range(10)]
    was, thresholds = gc.isenabled(), gc.get_threshold()
    gc.enable()
    mark = stream.age_mark()
    assert gc.isenabled()  # For who asks.
    assert gc.get_threshold()[0] > 10**9
    young = [[], {1: []}, Plain(), lambda: old]
    young[1][2] = ()
    assert [stream.age(mark, o) for o in young] == ["younger"] * 4
    assert {stream.age(mark, o) for o in old} == {"older"}
    assert stream.age(mark, Plain) == "older"
    assert stream.age(mark, 3) == "unknown"
    assert stream.age(mark, "text") == "unknown"
    later = stream.age_mark()
    assert stream.age(later, young[0]) == "older"
    assert stream.age(later, [old]) == "younger"
    # Many objects, so that the collector would run if it were on.
    many = [[i] for i in range(5000)]
    assert stream.age(mark, many[0]) == stream.age(later, many[-1]) == "younger"
    assert not stream.is_disturbed(mark)
    del mark
    assert gc.get_threshold()[0] > 10**9  # For the later one.
    gc.collect()
    assert stream.is_disturbed(later)
    gc.disable()
    del later
    assert not gc.isenabled()  # As the program left it.
    assert gc.get_threshold() == thresholds
    gc.enable()
    if not was:
        gc.disable()
