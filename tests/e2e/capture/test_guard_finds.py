"""What the fuzzer of guards found, one program each.

Each is called with an eager twin in a world of its own; tools/guard_fuzz.py.
"""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import functools
import math
import random
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from e2e.capture.agreement_of_calls import report
from e2e.capture.two_worlds import World, check

import mica


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.data.add_(1),
        lambda t: torch.Tensor.mul_(t.data, 2),
        lambda t: t.data[:2].zero_(),
        lambda t: t.add_(1),
    ],
)
@pytest.mark.parametrize("first", ["shared", "apart"])
def test_memory_that_data_shares_with_an_argument_is_guarded(write, first):
    def make():
        world = World()
        world.t = torch.tensor([1.0, 2.0, 3.0])

        def program(x):
            write(world.t)
            return torch.sin(x)

        world.program = program
        return world

    def shared(world, fn):
        return fn(world.t[:]), world.t.clone()

    def apart(world, fn):
        return fn(torch.tensor([1.0, 2.0, 3.0])), world.t.clone()

    one, other = (shared, apart) if first == "shared" else (apart, shared)
    hits = check(make, one, other, one, other, apart, shared)
    assert hits >= 2


def test_what_is_added_to_after_update_begins_with_what_update_put_there():
    def make():
        world = World()
        world.k = 1.0

        def program(x):
            world.__dict__.update(k=6.0)
            world.k += 1
            return x * 2

        world.program = program
        return world

    def call(world, fn):
        return fn(torch.ones(2)), world.k

    def change(world, fn):
        world.k = 7.5

    check(make, call, call, call, call, change, call, call, call)


def test_a_drawn_number_that_a_context_variable_gets_is_no_constant():
    def make():
        world = World()
        world.var = contextvars.ContextVar("var", default=1.5)

        def program(x):
            world.var.set(int(random.random() * 3))
            return x * 2

        world.program = program
        return world

    def call(world, fn):
        return fn(torch.ones(2)), world.var.get()

    for seed in range(4):
        random.seed(seed)
        # A context keeps the variables that were set in it.
        contextvars.copy_context().run(check, make, *[call] * 12)


@pytest.mark.parametrize(
    "container",
    [
        lambda: collections.OrderedDict(n=0.5),
        lambda: collections.defaultdict(float, n=0.5),
        lambda: {"n": 0.5},
        lambda: collections.Counter(n=2),
    ],
)
@pytest.mark.parametrize(
    "drawn", [lambda: random.choice([1.0, 2.0]), lambda: random.randint(1, 2)]
)
def test_a_drawn_number_that_an_item_gets_is_no_constant(container, drawn):
    def make():
        world = World()
        world.items = container()

        def program(x):
            world.items["n"] = drawn()
            return x * 2

        world.program = program
        return world

    def call(world, fn):
        return fn(torch.ones(2)), world.items["n"]

    for seed in range(4):
        random.seed(seed)
        check(make, *[call] * 12)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "write",
    [
        lambda a, b: torch._foreach_add_([a, a], 1.0),
        lambda a, b: torch._foreach_mul_([a.view(-1), a.detach()], 2.0),
        lambda a, b: torch._foreach_add_([a, b], [b, a]),
        lambda a, b: torch._foreach_addcmul_([a, b], [b, a], [a, a], 0.5),
        lambda a, b: torch._foreach_copy_([a, b], [b, a[:]]),
    ],
)
def test_lists_that_share_memory_are_written_item_by_item(write, exact):
    def program(a, b):
        write(a, b)
        return a + b

    def inputs():
        return torch.tensor([1.0, 2.0]), torch.tensor([5.0, 7.0])

    compiled = mica.compile(program, exact=exact)
    for _ in range(3):
        want, got = inputs(), inputs()
        assert torch.equal(compiled(*got), program(*want))
        assert all(map(torch.equal, got, want))
    assert report(compiled).hits == 2


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.from_numpy(numpy.arange(6.0).reshape(3, 2).T),
        lambda x: (
            torch.from_numpy(numpy.arange(6.0).reshape(3, 2).T)
            .as_strided((3,), (2,))
            .add(x)
        ),
        lambda x: torch.from_numpy(numpy.arange(900.0).reshape(30, 30).T)[3],
        lambda x: torch.from_numpy(numpy.arange(6.0).reshape(2, 3)[:, ::2]) + 1,
    ],
)
def test_constants_keep_their_layout(program):
    compiled = mica.compile(program, exact=True)
    x = torch.tensor([[1.0, 2.0, 3.0]])
    want = program(x)
    for _ in range(3):
        got = compiled(x)
        assert torch.equal(got, want)
        assert got.stride() == want.stride()
    assert report(compiled).hits == 2


class Plain:
    """Equal to itself alone."""


def always(self, other):
    return True


@pytest.mark.parametrize(
    "look",
    [
        lambda a, b: a in [b, 1.0],
        lambda a, b: a in (1.0, b),
        lambda a, b: a == b,
        lambda a, b: a != b,
        lambda a, b: [a, 1.0] == [b, 1.0],
        lambda a, b: [b, a].index(a) == 1,
        lambda a, b: [b].count(a) == 0,
        lambda a, b: b in {1.0: a}.values(),
    ],
)
@pytest.mark.parametrize("fresh", [True, False])
def test_what_compares_objects_is_guarded(look, fresh):
    def make():
        world = World()
        world.kind = type("Plain", (Plain,), {})
        world.a, world.b = world.kind(), world.kind()

        def program(x):
            b = world.kind() if fresh else world.b
            return x * (2.0 if look(world.a, b) else 3.0)

        world.program = program
        return world

    def call(world, fn):
        return fn(torch.ones(2))

    def change(world, fn):
        world.kind.__eq__ = always

    assert check(make, call, call, call, change, call, call) >= 2


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x * 2)[:2].requires_grad_(),
        lambda x: x.view(-1).requires_grad_(),
        lambda x: (x * 2).requires_grad_(),
        lambda x: torch.cat([x, x])[1:].detach().requires_grad_(),
    ],
)
def test_leaves_that_a_program_makes_are_leaves(program):
    compiled = mica.compile(program)
    with torch.enable_grad():
        for _ in range(4):
            leaf = compiled(torch.tensor([1.0, 2.0, 3.0]))
            assert leaf.requires_grad and leaf.is_leaf
            (leaf * 3).sum().backward()
            assert leaf.grad.eq(3).all()


class Other(Plain):
    """Another class of the same form."""


@pytest.mark.parametrize(
    "assign",
    [
        lambda v: setattr(v, "__class__", Other),
        lambda v: object.__setattr__(v, "__class__", Other),
    ],
)
def test_an_argument_gets_the_class_that_the_program_gives_it(assign):
    def program(x, v):
        assign(v)
        v.k = 2.0
        return x * 2

    compiled = mica.compile(program)
    for _ in range(4):
        v = Plain()
        compiled(torch.ones(2), v)
        assert type(v) is Other


class Attributes(dict):
    """A dict whose items are its attributes, too."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


@dataclasses.dataclass(eq=False)
class Settings:
    """What capture takes apart where it is an argument."""

    k: float = 2.0


def made(x):
    found = Settings()
    found.y = x * 2
    return found


@pytest.mark.parametrize(
    "program",
    [
        lambda x, c: (c.__dict__, c),
        lambda x, c: (vars(c), x * 2, c),
        lambda x, c: (c.__dict__.update, c),
        lambda x, c: (c, [c.__dict__, c.__dict__]),
        lambda x, c: (lambda v: (vars(v), v))(made(x)),
        lambda x, c: (lambda v: (v, vars(v)))(made(x)),
    ],
)
def test_the_attributes_of_an_object_are_its_own_dict(program):
    compiled = mica.compile(program)
    for _ in range(4):
        dicts, owners = [], []
        for part in compiled(torch.ones(2), Settings()):
            part = getattr(part, "__self__", part)
            (owners if type(part) is Settings else dicts).append(part)
        found = dicts[0][0] if type(dicts[0]) is list else dicts[0]
        assert found is vars(owners[0])
    assert report(compiled).hits == 3


@pytest.mark.parametrize(
    "program",
    [
        lambda x, c: Attributes(a=x * 2),
        lambda x, c: [Attributes(a=Attributes(b=x))][0].a,
    ],
)
def test_a_dict_that_is_its_own_attributes(program):
    compiled = mica.compile(program)
    for _ in range(4):
        found = compiled(torch.ones(2), None)
        found.fresh = 1.0
        assert found["fresh"] == 1.0
        assert found.__dict__ is found
    assert report(compiled).hits == 3


def test_what_a_step_does_to_the_attributes_of_an_argument():
    """An object of a class that is taken apart once another one came."""

    def make():
        world = World()
        world.kind = type("Kind", (), {})
        world.items = [1, 2, 3]

        def program(x, c):
            c.__dict__.update(k=len(world.items) > 2)
            return x

        world.program = program
        return world

    def call(world, fn):
        c = world.kind()
        c.k = 1.5
        fn(torch.ones(2), c)
        return c.k

    check(make, *[call] * 10)


@pytest.mark.parametrize(
    "place", ["item", "attribute", "variable", "cache", "names"]
)
def test_an_array_that_was_read_can_be_resized(place):
    def make():
        world = World()
        world.array = numpy.array([1.0, 2.0, 3.0], "f")
        world.items = [world.array]
        held = world.array
        names = types.SimpleNamespace(array=held).__dict__.copy

        @functools.lru_cache
        def cached(k):
            return world.array

        cached(1)
        reads = {
            "item": lambda: world.items[0],
            "attribute": lambda: world.array,
            "variable": lambda: held,
            "cache": lambda: cached(1),
            "names": lambda: names()["array"],
        }
        read = reads[place]

        def program(x):
            return x * float(read().sum())

        world.program = program
        return world

    def call(world, fn):
        return fn(torch.ones(2))

    def resize(world, fn):
        world.array.resize(2, refcheck=False)

    def change(world, fn):
        world.array[0] += 1

    assert check(make, call, call, call, resize, call, call, change, call) >= 2


@dataclasses.dataclass(eq=False)
class HasArray:
    array: Any


@pytest.mark.parametrize("is_attribute", [False, True])
@pytest.mark.parametrize(
    "use",
    [
        lambda a, world: 1.0,
        lambda a, world: float(a.sum()),
        lambda a, world: float(a[0]),
        lambda a, world: len(a),
        lambda a, world: 2.0 if a is world.array else 3.0,
        lambda a, world: torch.from_numpy(a)[:2],
    ],
)
def test_an_array_that_is_an_argument_can_be_resized(use, is_attribute):
    def make():
        world = World()
        world.array = numpy.array([1.0, 2.0, 3.0], "f")

        def program(x, holder):
            array = holder.array if is_attribute else holder
            return x * use(array, world)

        world.program = program
        return world

    def call(world, fn):
        array = world.array
        return fn(torch.ones(2), HasArray(array) if is_attribute else array)

    def resize(world, fn):
        try:
            world.array.resize(2, refcheck=False)
        except ValueError as error:  # It was given to torch.
            return str(error)[:20]

    def change(world, fn):
        world.array[0] += 1

    def replace(world, fn):
        world.array = numpy.array([1.0, 2.0, 3.0], "f")

    steps = call, call, call, resize, call, call, change, call, replace, call
    assert check(make, *steps, call) >= 2


def test_a_full_cache_that_uses_an_old_item_for_a_new_result():
    def make():
        world = World()
        world.k = 2.0

        @functools.lru_cache(maxsize=1)
        def cached(n):
            return world.k

        cached(1)

        def program(x):
            return x * cached(1)

        world.program, world.cached = program, cached
        return world

    def call(world, fn):
        return fn(torch.ones(2))

    def change(world, fn):
        world.cached(2)
        world.k += 3
        world.cached(1)

    hits = check(make, call, call, call, change, call, call, change, call)
    assert hits >= 2


@pytest.mark.parametrize("action", ["error", "always"])
@pytest.mark.parametrize("category", [Warning, RuntimeWarning])
@pytest.mark.parametrize("times", [1, 3])
def test_what_c_code_warns_of_under_filters_that_are_loud(
    action, category, times
):
    """numpy warns of a division by zero."""

    def program(x):
        return x * float(numpy.log(numpy.zeros(1))[0] < 0)

    compiled = mica.compile(program, exact=True)
    x = torch.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            compiled(x)
        hits = report(compiled).hits
        assert hits == 3
        for _ in range(times):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter(action, category)
                try:
                    compiled(x)
                    assert action == "always"
                except RuntimeWarning:
                    assert action == "error"
                assert len(told) == (action == "always")
        compiled(x)
        assert report(compiled).hits == hits + 1


def test_filters_that_are_loud_are_no_miss_where_nothing_changes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = mica.compile(lambda x: x * 2)
        for _ in range(3):
            compiled(torch.ones(1))
        for _ in range(3):
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)
                warnings.filters[:] = warnings.filters[1:]
                warnings.filterwarnings("ignore", "nothing", append=True)
                compiled(torch.ones(1))
    assert report(compiled).hits == 5


@pytest.mark.parametrize("times", [1, 2, 20])
def test_a_list_that_holds_itself_and_a_number_that_varies(times):
    def make():
        world = World()
        world.items = [0.5, 1.0]
        world.items.extend([world.items] * times)

        def program(x):
            return x * world.items[0]

        world.program = program
        return world

    def call(world, fn):
        return fn(torch.ones(2))

    def change(world, fn):
        world.items[0] += 1

    check(make, call, call, change, call, call, change, call, change, call)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.func.grad(lambda v: (v * v).sum())(x.detach()),
        lambda x: torch.func.vjp(lambda v: v * 2, x)[1](x)[0],
        lambda x: torch.inference_mode(False)(torch.mul)(x, 2),
        lambda x: torch.func.vmap(lambda v: v * 2)(x),
        lambda x: x.view(-1),
        lambda x: x * 2,
    ],
)
def test_what_is_made_in_inference_mode_is_what_eager_makes(program, exact):
    compiled = mica.compile(program, exact=exact)
    x = torch.tensor([1.0, 2.0, 3.0])
    with torch.inference_mode():
        for _ in range(4):
            got, want = compiled(x), program(x)
            assert got.is_inference() == want.is_inference()
            assert torch.equal(got, want)


@pytest.mark.parametrize("scale", [0.0, 1e-30])
@pytest.mark.parametrize(
    "program",
    [
        lambda x, k: torch.addcmul(x, x, x, value=k),
        lambda x, k: torch.addcmul(x * 2, x + 1, x, value=k) - x,
        lambda x, k: torch.addcdiv(x * 2, x + 1, 1 / x, value=k) - x,
    ],
)
def test_products_that_overflow_in_another_order(program, scale):
    compiled = mica.compile(program)
    x = torch.full((40,), 1e25)
    for _ in range(3):
        assert torch.allclose(compiled(x, scale), program(x, scale))
    assert report(compiled).hits == 2


@pytest.mark.parametrize("exact", [True, False])
def test_hits_write_none_of_torch_s_warnings(exact, capfd):
    """`std` of one element warns."""
    compiled = mica.compile(lambda x: x.std(), exact=exact)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            assert compiled(torch.ones(1)).isnan()
    assert report(compiled).hits == 3
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.nn.Parameter(torch.zeros(3)).view(-1),
        lambda x: torch.zeros(3, requires_grad=True).view(-1)[:2],
        lambda x: (x * 2).detach().requires_grad_()[:2],
        lambda x: (x + 2).view(-1)[:3].requires_grad_()[..., :2],
    ],
)
def test_nobody_writes_to_a_view_of_a_leaf_that_a_program_made(program):
    compiled = mica.compile(program)
    with torch.enable_grad():
        for _ in range(4):
            with pytest.raises(RuntimeError, match="a view of a leaf"):
                compiled(torch.ones(3)).add_(1)


def test_a_filter_of_a_category_made_in_python_is_no_miss():
    class Own(UserWarning):
        pass

    compiled = mica.compile(lambda x: x * 2)
    compiled(torch.ones(1))
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("always", Own)
            compiled(torch.ones(1))
    assert report(compiled).hits == 2


@pytest.mark.parametrize("where", ["result", "state", "no more", "argument"])
def test_a_view_whose_history_torch_refuses_to_tell(where):
    def make() -> Any:
        world: Any = World()
        world.p = torch.nn.Parameter(torch.tensor([1.0, 2.0, 4.0]))
        world.held = []
        optimizer = torch.optim.SGD([world.p], lr=0.25)

        def program(x: torch.Tensor) -> Any:
            with torch.no_grad():
                view = (x if where == "argument" else world.p).view(-1)
            world.p.grad = torch.full_like(world.p, float(x[0]))
            optimizer.step()
            if where == "argument":
                x.mul_(world.p)
            if where == "state":
                world.held.append(view)
            return (view, x * 2) if where == "result" else x * 2

        world.program = program
        return world

    def step(world: Any, fn: Any) -> Any:
        result = fn(torch.ones(3))
        views = world.held + [result[0]] * (where == "result")
        for view in views:
            with pytest.raises(RuntimeError, match="created in no_grad mode"):
                assert view.grad_fn
        results = result if where == "result" else [result]
        return [t.detach() for t in [*results, *world.held, world.p]]

    check(make, *[step] * 4)


@pytest.mark.parametrize(
    "text",
    [
        "1.0 / n",
        "7 // n",
        "7.0 % n",
        "n**-1",
        "10.0**n",
        "math.sqrt(n)",
        "math.log(n)",
        "(n - 1) / (n - 1.5)",
        "x * (1.0 / n)",
        "1.0 / (x.sum().item() - 2.0 + n)",
    ],
)
def test_what_nobody_uses_raises(text):
    names: dict[str, Any] = {"math": math}
    code = f"def of(x, n):\n    {text}\n    return x * n\n"
    exec(code, names)

    def make() -> Any:
        world: Any = World()
        world.n = 2.0
        world.program = lambda x: names["of"](x, world.n)
        return world

    def step(n: Any) -> Callable[[Any, Any], Any]:
        def go(world: Any, fn: Any) -> Any:
            world.n = n
            try:
                return fn(torch.ones(2))
            except (ArithmeticError, ValueError) as error:
                return type(error), str(error)

        return go

    numbers = [2.0, 3.0, 4.0, 5.0, 0.0, 1.5, -1.0, 400.0, 0, 6.0]
    assert check(make, *map(step, numbers)) >= 2


@pytest.mark.once("annotations stay")
def test_an_annotated_call_goes_by_its_class():
    class Silent:
        def __init__(self) -> None:
            self.seen: list[float] = []

        def __call__(self, value: float) -> Any:
            self.seen.append(value)

    class Loud(Silent):
        def __call__(self, value: float) -> Any:
            return value * 2

    def make() -> Any:
        world: Any = World()
        world.sink = Silent()
        mica.annotate(world.sink, "host")
        world.program = lambda x: (x * 2, world.sink(len(x.shape)))
        return world

    def step(world: Any, fn: Any) -> Any:
        return fn(torch.ones(2)), world.sink.seen

    def turn(world: Any, fn: Any) -> Any:
        world.sink.__class__ = Loud
        return step(world, fn)

    assert check(make, step, step, step, turn, step) >= 1


class Box:
    pass


@pytest.mark.once("annotations stay")
@pytest.mark.parametrize(
    "leave, change",
    [
        ("W.v[0] = [1, y.detach()]", "W.v[0].append(W.n)"),
        ("W.v.append([1])", "W.v[-1].append(W.n)"),
        ("W.v.append((1, [x + 1]))", "W.v[-1][1].append(W.n)"),
        ("W.v[0] = {1: {2: y}}", "W.v[0][1][W.n] = 4"),
        ("W.v[0] = Box(); W.v[0].a = [1]", "W.v[0].a.append(W.n)"),
        ("W.v[0] = Box()", "W.v[0].a = W.n; W.n += 1"),
        ("W.d[2] = {1: {2}}", "W.d[2][1].add(W.n); W.n += 1"),
    ],
)
def test_what_a_callee_changes_of_what_the_program_left(leave, change):
    def make() -> Any:
        world: Any = World()
        world.v, world.d, world.n = [[2.0, "a"], 1.0], {}, 5
        names: dict[str, Any] = {"W": world, "Box": Box}
        code = (
            f"def sink(text):\n    {change}\n"
            f"def program(x):\n    y = x * 2\n    {leave}\n    return sink(1)"
        )
        exec(code, names)
        mica.annotate(names["sink"], "host")
        world.program = names["program"]
        return world

    def held(value: Any) -> Any:
        if isinstance(value, Box):
            return [(k, held(v)) for k, v in vars(value).items()]
        if isinstance(value, dict):
            return [(k, held(v)) for k, v in value.items()]
        if isinstance(value, list | tuple | set):
            return [held(v) for v in value]
        return value

    def step(world: Any, fn: Any) -> Any:
        fn(torch.ones(2))
        return held(world.v), held(world.d), world.n

    check(make, *[step] * 5)
