"""Objects that a record is about may die once the user replaced them."""

from __future__ import annotations

import gc
import operator
import os
import random
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest
import torch
from e2e.capture.agreement_of_calls import report, same
from e2e.capture.holders import Holder, holder_of, is_dead
from torch import nn

import mica


def test_an_object_at_the_address_of_a_dead_one_is_another():
    holder = Holder()

    class Gain:
        pass

    def make(value):
        gain = Gain()
        gain.value = value
        return gain

    holder.gain = make(2.0)
    fast = mica.compile(lambda x: x * holder.gain.value)
    x = torch.ones(2)
    for value in range(20):
        del holder.gain
        holder.gain = make(float(value % 3))
        for _ in range(2):
            same(fast(x), x * float(value % 3))


def test_a_model_that_is_put_back_is_served_again():
    nets = [nn.Linear(2, 2), nn.Linear(2, 2)]
    holder = Holder()
    holder.net = nets[0]
    fast = mica.compile(lambda x: holder.net(x))
    x = torch.ones(1, 2)
    for call in range(12):
        holder.net = nets[call % 2]
        same(fast(x), nets[call % 2](x))
    assert report(fast).hits == 10, str(report(fast))


def test_explain_can_be_asked_after_what_was_recorded_is_gone():
    holder = Holder()
    holder.net = nn.Linear(2, 2)
    fast = mica.compile(lambda x: holder.net(x))
    x = torch.ones(1, 2)
    for _ in range(3):
        fast(x)
    holder.net = None
    gc.collect()
    assert str(mica.explain(fast))
    holder.net = nn.Linear(2, 2)
    same(fast(x), holder.net(x))
    assert str(mica.explain(fast))


class Gain:
    def __init__(self, value=3.0):
        self.value = value

    def get(self):
        return self.value


def worlds():
    """Yields (name, owner, program): each reads a Gain that `owner` holds."""

    def by_reference(owner):
        ref = weakref.ref(owner[0])

        def program(x):
            gain = ref()
            return x * (1.0 if gain is None else gain.value)

        return program

    def by_method(owner):
        ref = weakref.WeakMethod(owner[0].get)

        def program(x):
            get = ref()
            return x * (1.0 if get is None else get())

        return program

    def by_value(owner):
        cache = weakref.WeakValueDictionary(gain=owner[0])

        def program(x):
            gain = cache.get("gain")
            return x * (1.0 if gain is None else gain.value)

        return program

    def by_key(owner):
        cache = weakref.WeakKeyDictionary({owner[0]: 2.0})

        def program(x):
            return x * len(cache)

        return program

    def by_set(owner):
        cache = weakref.WeakSet([owner[0]])

        def program(x):
            return x * len(cache)

        return program

    def by_proxy_or_none(owner):
        proxy = weakref.proxy(owner[0])

        def program(x):
            try:
                return x * proxy.value
            except ReferenceError:
                return x

        return program

    return [by_reference, by_method, by_value, by_key, by_set, by_proxy_or_none]


@pytest.mark.parametrize("make", worlds(), ids=lambda make: make.__name__)
def test_what_is_reached_weakly_dies(make):
    owners = [[Gain()], [Gain()]]
    eager, fast = make(owners[0]), mica.compile(make(owners[1]))
    x = torch.ones(2)
    for call in range(8):
        if call == 4:
            for owner in owners:
                owner.clear()
            gc.collect()
        same(fast(x), eager(x))


class SlotForReference:
    __slots__ = ("ref",)


def places_of_references():
    """Yields programs that read a reference, and what puts it there."""

    def attribute():
        holder = Holder()

        def put(ref):
            holder.ref = ref

        return lambda x: x * holder.ref().value, put

    def slot():
        holder = SlotForReference()

        def put(ref):
            holder.ref = ref

        return lambda x: x * holder.ref().value, put

    def item():
        table = {}

        def put(ref):
            table["a"] = ref

        return lambda x: x * table["a"]().value, put

    def element():
        items = [None]

        def put(ref):
            items[0] = ref

        return lambda x: x * items[0]().value, put

    def part():
        holder = Holder()

        def put(ref):
            holder.refs = (ref, [2.0])

        return lambda x: x * holder.refs[0]().value, put

    def cell():
        ref = None

        def put(other):
            nonlocal ref
            ref = other

        return lambda x: x * ref().value, put

    def default():
        def gain(ref=None):
            return ref().value

        def put(ref):
            gain.__defaults__ = (ref,)

        return lambda x: x * gain(), put

    def compared():
        holder = Holder()
        holder.first = None

        def put(ref):
            if holder.first is None:
                holder.first = ref
            holder.ref = ref

        return lambda x: x * (2.0 if holder.ref == holder.first else 3.0), put

    def hashed():
        holder = Holder()
        holder.gains = {}

        def put(ref):
            holder.gains[ref] = float(len(holder.gains) + 2)
            holder.ref = ref

        return lambda x: x * holder.gains[holder.ref], put

    def told_back():
        holder = Holder()

        def put(ref):
            holder.ref = ref

        def program(x):
            return x * (2.0 if holder.ref.__callback__ is None else 3.0)

        return program, put

    return [
        attribute,
        slot,
        item,
        element,
        part,
        cell,
        default,
        compared,
        hashed,
        told_back,
    ]


@pytest.mark.parametrize(
    "make", places_of_references(), ids=lambda make: make.__name__
)
@pytest.mark.parametrize("kind", [weakref.ref, weakref.KeyedRef])
def test_a_reference_is_let_go_of_with_its_callback(make, kind):
    def refer(owner, callback):
        if kind is weakref.KeyedRef:
            return kind(owner, callback, "key")
        return kind(owner, callback)

    if make.__name__ == "hashed":
        return  # The table keeps them.
    owners, told = [[Gain()], [Gain()]], [[], []]
    programs = [make(), make()]
    compiled = mica.compile(programs[1][0])
    for (_, put), owner, calls in zip(programs, owners, told, strict=True):
        put(refer(owner[0], calls.append))
    x = torch.ones(2)
    for _ in range(3):
        same(compiled(x), programs[0][0](x))
    for (_, put), owner in zip(programs, owners, strict=True):
        other = Gain()
        put(weakref.ref(other))
        owner.append(other)
        del owner[0], other
    gc.collect()
    if make.__name__ != "compared":  # Its first one is still there.
        assert told == [[], []]
    assert len(told[0]) == len(told[1])
    for _ in range(2):
        same(compiled(x), programs[0][0](x))


@pytest.mark.parametrize(
    "make", places_of_references(), ids=lambda make: make.__name__
)
def test_a_reference_at_the_address_of_another_is_another(make):
    owners = []
    for number in range(6):
        owners.append(Gain())
        owners[-1].value = float(number + 1)
    program, put = make()
    eager, put_eager = make()
    fast = mica.compile(program)
    x = torch.ones(2)
    for call in range(24):
        number = call % 6 if call < 12 else random.Random(call).randrange(6)
        for place in (put, put_eager):
            place(None) if make.__name__ not in ("compared", "hashed") else 0
            callback = (lambda ref: None) if call % 4 == 1 else None
            place(weakref.ref(owners[number], callback))
        for _ in range(2):
            same(fast(x), eager(x))


def cycles():
    """Yields names and makers of (root, program) in which all is one cycle."""

    def by_list(_):
        root = Gain()
        root.hooks = [root.get]
        return root, lambda x, root: x * root.hooks[0]()

    def by_dict(_):
        root = Gain()
        root.table = {"self": root}
        return root, lambda x, root: x * root.table["self"].value

    def by_tuple(_):
        root = Gain()
        root.parts = (root, [1.0])
        return root, lambda x, root: x * root.parts[0].value + root.parts[1][0]

    def by_closure(_):
        root = Gain()

        def get():
            return root.value

        root.get_it = get
        return root, lambda x, root: x * root.get_it()

    def by_class(_):
        class Local(Gain):
            table = {}

            @property
            def scale(self):
                return len(self.table) * self.unit()

            @staticmethod
            def unit():
                return 1.0 if Local.table else 0.0

            def get(self):
                return super().get() * self.scale

        root = Local()
        Local.table["self"] = root
        return root, lambda x, root: x * root.get()

    def by_parent(_):
        root = nn.Linear(2, 2)
        root.child = nn.Linear(2, 2)
        object.__setattr__(root.child, "parent", root)
        root.forward = lambda x, root=root: root.child(x) + root.bias

        return root, lambda x, root: root(x)

    def by_written_attribute(_):
        root = Gain()
        root.itself = root

        def program(x, root):
            root.last = 2.0
            return x * root.itself.value

        return root, program

    def by_namespace(_):
        space = {}
        exec(  # noqa: S102
            "class Root: pass\nroot = Root()\nroot.value = 2.0\n"
            "def get(): return root.value\nroot.get = get\n",
            space,
        )
        return space["root"], lambda x, root: x * root.get()

    found = locals()
    return [found[name] for name in found if name.startswith("by_")]


@pytest.mark.parametrize("make", cycles(), ids=lambda make: make.__name__)
def test_a_record_keeps_no_cycle_alive(make):
    root, program = make(None)
    eager_root, _ = make(None)
    holder = holder_of(root)
    fast = mica.compile(lambda x: program(x, holder.value))
    x = torch.ones(2, 2)
    with torch.no_grad():
        if isinstance(root, nn.Module):
            eager_root.load_state_dict(root.state_dict())
        for _ in range(4):
            same(fast(x), program(x, eager_root))
    ref = weakref.ref(root)
    del root
    assert not is_dead(ref)
    holder.value = None
    assert is_dead(ref)


def test_a_finalizer_runs_when_the_user_lets_go():
    ended = []
    holder = holder_of(Gain())
    weakref.finalize(holder.value, ended.append, 1)
    fast = mica.compile(lambda x: x * holder.value.value)
    for _ in range(3):
        fast(torch.ones(2))
    holder.value = Gain(2.0)
    assert ended == [1]
    same(fast(torch.ones(2)), torch.full((2,), 2.0))


def test_an_argument_may_die():
    gain = Gain()
    fast = mica.compile(lambda x, gain: x * gain.value)
    for _ in range(3):
        same(fast(torch.ones(2), gain), torch.full((2,), 3.0))
    ref = weakref.ref(gain)
    del gain
    assert is_dead(ref)


class Slotted:
    __slots__ = ("gain",)

    def __init__(self, gain):
        self.gain = gain


# What a piece of a program hands on to the next, of an argument.
HANDED_ON = {
    "a cell": lambda y, gain: (y, (lambda: gain).__closure__[0]),
    "an instance": lambda y, gain: (y, Slotted(gain)),
    "an instance in a dict": lambda y, gain: (y, {"made": [Slotted(gain)]}),
    "a list in an instance": lambda y, gain: (y, Slotted([gain])),
    "an iterator": lambda y, gain: (y, map(id, [gain])),
    "a slice": lambda y, gain: (y, slice(gain, None)),
}


@pytest.mark.parametrize("what", HANDED_ON)
def test_what_a_piece_hands_on_may_die(what):
    hand_on = HANDED_ON[what]

    def program(x, gain):
        y, made = hand_on(x * gain.value, gain)
        y.data_ptr()
        return y, made

    fast = mica.compile(program)
    for _ in range(6):
        gain = Gain()
        ref = weakref.ref(gain)
        same(fast(torch.ones(2), gain)[0], torch.full((2,), 3.0))
        del gain
        assert is_dead(ref)


def test_others_at_the_addresses_of_the_dead_are_told_apart():
    """Containers and tensors come and go where those before them lay."""
    holder = Holder()
    draw = random.Random(0)

    def make():
        one, two = float(draw.randrange(3)), float(draw.randrange(3))
        holder.table = {"gain": one}
        holder.items = [one, {"gain": two}]
        holder.parts = (holder_of(one), [two], {"gain": two})
        holder.cell = (lambda value: lambda: value)({"gain": [two]})
        holder.tensor = torch.full((2,) if draw.random() < 0.5 else (1,), one)

    def program(x):
        y = x * holder.table["gain"] + holder.items[0] * holder.items[1]["gain"]
        y = y + holder.parts[0].value + holder.parts[1][0]
        y = y * holder.parts[2]["gain"] + holder.cell()["gain"][0]
        return y + holder.tensor

    fast = mica.compile(program)
    x = torch.ones(2)
    for call in range(120):
        if call % 3 == 0:
            make()
        else:
            name = draw.choice([*vars(holder)])
            kept = getattr(holder, name)
            delattr(holder, name)
            del kept
            make()
        for _ in range(2):
            same(fast(x), program(x))


@pytest.mark.parametrize("name", ["scale", "unread"])
def test_a_class_may_lose_a_slot(name):
    class Scale:
        __slots__ = ("scale", "table", "unread")

    holder = holder_of(Scale())
    holder.value.scale, holder.value.table = 2.0, {"gain": 3.0}

    def program(x):
        return x * holder.value.scale * holder.value.table["gain"]

    fast = mica.compile(program)
    x = torch.ones(2)
    for _ in range(3):
        same(fast(x), program(x))
    delattr(Scale, name)
    gc.collect()
    kept = [[value] for value in range(64)]  # At the address of what was there.
    assert str(mica.explain(fast).details("guards"))
    if name == "scale":
        with pytest.raises(AttributeError):
            fast(x)
        Scale.scale = 4.0
    same(fast(x), program(x))
    assert len(kept) == 64


def test_a_finalizer_may_bring_back_the_compiled_alone():
    saved = []

    class Keeper:
        def __del__(self):
            saved.append(self.fast)

    def make():
        keeper = Keeper()
        keeper.itself, keeper.gain = keeper, Gain()
        ref = weakref.ref(keeper.gain)

        def program(x):
            gain = ref()
            return x * (1.0 if gain is None else gain.value)

        keeper.fast = mica.compile(program)
        for _ in range(3):
            same(keeper.fast(torch.ones(2)), torch.full((2,), 3.0))

    make()
    gc.collect()
    (fast,) = saved
    same(fast(torch.ones(2)), torch.ones(2))
    told = report(fast)
    assert told.dropped == 1 and "is gone" in told.drops[0].text


def test_what_is_returned_from_a_place_is_held_by_a_run():
    holder = Holder()

    def program(x):
        return x + 1, holder.table["number"], holder.cell()

    def make():
        holder.table = {"number": float("12345.678")}
        holder.cell = (lambda value: lambda: value)(float("0.125"))

    make()
    fast = mica.compile(program)
    x = torch.ones(2)
    for _ in range(6):
        for _ in range(3):
            (_, *got), (_, *expected) = fast(x), program(x)
            assert all(map(operator.is_, got, expected))
        make()
        gc.collect()


def test_a_run_holds_what_another_thread_replaces():
    model = nn.Linear(512, 512)
    fast = mica.compile(model)
    x = torch.randn(64, 512)
    with torch.no_grad():
        for _ in range(3):
            fast(x)
        stop = threading.Event()

        def replace():
            while not stop.is_set():
                model.weight = nn.Parameter(torch.zeros(512, 512))
                model.bias = nn.Parameter(torch.zeros(512))

        thread = threading.Thread(target=replace)
        thread.start()
        try:
            for _ in range(200):
                assert torch.isfinite(fast(x)).all()
        finally:
            stop.set()
            thread.join()


def test_what_died_in_a_run_is_not_looked_into_after_it():
    code = """
        import weakref, torch, mica

        class Noticed:
            pass

        table, ends = {}, []

        def step(x, gain, drops):
            y = x * gain
            if drops:
                table.pop("a")
            return y, gain

        fast = mica.compile(step)
        x = torch.ones(2)
        for call in range(6):
            drops = call >= 3
            table["a"] = Noticed()
            if drops:
                weakref.finalize(table["a"], ends.append, call)
            y, _ = fast(x, 2.5 + call, drops)
            assert torch.equal(y, x * (2.5 + call))
            assert ends == list(range(3, call + 1)), ends
    """
    # Of freed memory nothing is left under this allocator.
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | {"PYTHONMALLOC": "debug"},
        timeout=120,
        check=True,
    )
