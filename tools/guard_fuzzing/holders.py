"""Values, and the places where a program keeps them."""

from __future__ import annotations

import dataclasses
import random

VALUES: dict[str, list[str]] = {
    "float": [
        "2.0",
        "0.5",
        "3.5",
        "1.5",
        "-0.0",
        "0.0",
        "-1.25",
        "1e-3",
        "float('nan')",
    ],
    "int": ["1", "2", "3", "5", "0", "-2", "7", "300"],
    "bool": ["True", "False"],
    "text": ["'a'", "'bb'", "'gain'", "'k'"],
    "none": ["None"],
    "tensor": [
        "torch.ones(3)",
        "torch.tensor([1.0, -2.0, 3.0])",
        "torch.full((3,), 0.5)",
        "torch.tensor(2.0)",
        "torch.tensor([1, 2, 3])",
        "torch.ones(3, dtype=torch.float64)",
        "torch.tensor([True, False, True])",
        "torch.ones(2, 3).t()[:, 0]",
        "torch.ones(1, 3)",
        "torch.zeros(3)",
    ],
    "leaf": [
        "torch.ones(3, requires_grad=True)",
        "nn.Parameter(torch.tensor([1.0, 2.0, 4.0]))",
        "nn.Parameter(torch.zeros(3))",
    ],
    "object": [
        "A()",
        "A(3.0)",
        "B()",
        "C()",
        "Child()",
        "Config()",
        "Options()",
        "Slotted()",
        "Pair(1.0, 2.0)",
        "Kind.ADD",
        "types.SimpleNamespace(k=1.0, gain=2.0, scale=double)",
    ],
    "class": ["A", "B", "Child", "Plug", "Kept"],
    "function": [
        "double",
        "shift",
        "lambda v: v + 1",
        "functools.partial(double, by=3.0)",
        "math.sqrt",
        "A(2.0).scale",
        "abs",
    ],
    "list": ["[1.0, 2.0]", "[1, 2, 3]", "[3.0]", "[2.0, 'a']"],
    "dict": [
        "{'a': 1.0, 'b': 2.0}",
        "{'b': 2, 'a': 1}",
        "collections.OrderedDict(a=1.0, b=2.0)",
        "collections.defaultdict(float, a=1.0)",
        "collections.Counter(a=2)",
    ],
    "other": [
        "{1.0, 2.0}",
        "(1.0, 2.0)",
        "collections.deque([1.0, 2.0])",
        "collections.deque([1.0, 2.0], maxlen=2)",
        "range(3)",
        "frozenset([1.0, 3.0])",
    ],
    "decimal": ["decimal.Decimal(1)", "decimal.Decimal('2.5')"],
    "fraction": ["fractions.Fraction(1, 3)"],
    "array": [
        "numpy.ones(3, 'f')",
        "numpy.arange(3.0)",
        "numpy.float64(2.0)",
        "numpy.float32(1.5)",
    ],
    "tensors": [
        "[torch.ones(3), torch.zeros(3)]",
        "{'a': torch.ones(3), 'b': torch.full((3,), 2.0)}",
        "(torch.ones(3), torch.full((3,), 3.0))",
    ],
}
KINDS = {
    "float": 14,
    "int": 8,
    "bool": 4,
    "text": 3,
    "none": 2,
    "tensor": 14,
    "leaf": 5,
    "object": 12,
    "class": 4,
    "function": 5,
    "list": 6,
    "dict": 6,
    "other": 4,
    "decimal": 2,
    "fraction": 1,
    "array": 3,
    "tensors": 4,
}


@dataclasses.dataclass(frozen=True)
class Holder:
    """A place where a value is kept.

    Attributes:
      setup: A statement; `{n}` is a new name, `{v}` the value.
      read: An expression that gives the value.
      write: A statement that sets it; empty if there is none.
    """

    setup: str
    read: str
    write: str = ""


HOLDERS = {
    "global": Holder("{n} = {v}", "{n}"),
    "written global": Holder("{n} = {v}", "{n}", "globals()['{n}'] = {v}"),
    "attribute": Holder("{n} = A({v})", "{n}.k", "{n}.k = {v}"),
    "attribute of slots": Holder("{n} = Slotted({v})", "{n}.k", "{n}.k = {v}"),
    "namespace": Holder(
        "{n} = types.SimpleNamespace(v={v})", "{n}.v", "{n}.v = {v}"
    ),
    "item": Holder("{n} = {{'v': {v}, 'w': 0}}", "{n}['v']", "{n}['v'] = {v}"),
    "got item": Holder("{n} = {{'v': {v}}}", "{n}.get('v', 1.0)"),
    "list item": Holder("{n} = [{v}, 1.0]", "{n}[0]", "{n}[0] = {v}"),
    "tuple item": Holder("{n} = ({v}, 1.0)", "{n}[0]"),
    "nested": Holder(
        "{n} = A({{'a': [{v}]}})", "{n}.k['a'][-1]", "{n}.k['a'][0] = {v}"
    ),
    "class attribute": Holder(
        "class {n}:\n    v = {v}", "{n}.v", "{n}.v = {v}"
    ),
    "class attribute by object": Holder(
        "class {n}_:\n    v = {v}\n{n} = {n}_()", "{n}.v", "{n}.v = {v}"
    ),
    "inherited": Holder(
        "class {n}_:\n    v = {v}\nclass {n}({n}_):\n    pass", "{n}.v"
    ),
    "metaclass": Holder(
        "class {n}_(type):\n    v = {v}\nclass {n}(metaclass={n}_):\n    pass",
        "{n}.v",
    ),
    "property": Holder(
        "class {n}_:\n    v = {v}\n    p = property(lambda self: self.v)\n"
        "{n} = {n}_()",
        "{n}.p",
        "{n}.v = {v}",
    ),
    "descriptor": Holder(
        "class {n}_:\n    v = Desc()\n{n} = {n}_()\n{n}.v = {v}",
        "{n}.v",
        "{n}.v = {v}",
    ),
    "cached property": Holder(
        "class {n}_:\n    v = {v}\n    @functools.cached_property\n"
        "    def p(self):\n        return self.v\n{n} = {n}_()",
        "{n}.p",
        "{n}.__dict__.pop('p', None)",
    ),
    "closure": Holder(
        "def {n}_():\n    c = {v}\n    def get():\n        return c\n"
        "    def set(v):\n        nonlocal c\n        c = v\n"
        "    return get, set\n{n}, {n}_set = {n}_()",
        "{n}()",
        "{n}_set({v})",
    ),
    "default": Holder("def {n}(v={v}):\n    return v", "{n}()"),
    "keyword default": Holder("def {n}(*, v={v}):\n    return v", "{n}()"),
    "partial": Holder("{n} = functools.partial(lambda v: v, {v})", "{n}()"),
    "function attribute": Holder(
        "def {n}():\n    return {n}.v\n{n}.v = {v}", "{n}()", "{n}.v = {v}"
    ),
    "dataclass": Holder("{n} = Config({v})", "{n}.k", "{n}.k = {v}"),
    "named tuple": Holder("{n} = Pair({v}, 1)", "{n}.k"),
    "module of code": Holder(
        "{n} = types.ModuleType('{n}')\n{n}.v = {v}", "{n}.v", "{n}.v = {v}"
    ),
    "module": Holder("{n} = nn.Module()\n{n}.v = {v}", "{n}.v", "{n}.v = {v}"),
    "child of a module": Holder(
        "{n} = nn.Sequential(nn.Identity())\n{n}[0].v = {v}", "{n}[0].v"
    ),
    "context variable": Holder(
        "{n} = contextvars.ContextVar('{n}')\n{n}.set({v})", "{n}.get()"
    ),
    "variable's default": Holder(
        "{n} = contextvars.ContextVar('{n}', default={v})", "{n}.get()"
    ),
    "thread local": Holder(
        "{n} = threading.local()\n{n}.v = {v}", "getattr({n}, 'v', 1.0)"
    ),
    "cached function": Holder(
        "{n}_ = [{v}]\n@functools.lru_cache\ndef {n}(k):\n    return {n}_[0]",
        "{n}(1)",
        "{n}.cache_clear()",
    ),
    "small cache": Holder(
        "{n}_ = [{v}]\n@functools.lru_cache(maxsize=1)\ndef {n}(k):\n"
        "    return {n}_[0]",
        "{n}(1)",
        "{n}(2)",
    ),
    "own attributes": Holder("{n} = Attrs(v={v})", "{n}.v", "{n}['v'] = {v}"),
    "weak key": Holder(
        "{n} = weakref.WeakKeyDictionary()\n{n}[SPECIAL] = {v}",
        "{n}[SPECIAL]",
        "{n}[SPECIAL] = {v}",
    ),
    "coroutine": Holder(
        "{n}_ = [{v}]\nasync def {n}():\n    return {n}_[0]",
        "asyncio.run({n}())",
    ),
    "set in a context": Holder(
        "{n} = contextvars.Context()\n{n}.run(VAR.set, {v})",
        "{n}[VAR]",
    ),
    "own item": Holder(
        "class {n}_(dict):\n    def __missing__(self, key):\n"
        "        return {v}\n{n} = {n}_()",
        "{n}['v']",
    ),
    "mapping proxy": Holder(
        "{n}_ = {{'v': {v}}}\n{n} = types.MappingProxyType({n}_)", "{n}['v']"
    ),
    "chain of maps": Holder(
        "{n} = collections.ChainMap({{}}, {{'v': {v}}})",
        "{n}['v']",
        "{n}['v'] = {v}",
    ),
    "static method": Holder(
        "class {n}_:\n    v = {v}\n    @classmethod\n    def get(cls):\n"
        "        return cls.v\n{n} = {n}_",
        "{n}.get()",
        "{n}.v = {v}",
    ),
    "deque": Holder(
        "{n} = collections.deque([{v}])", "{n}[0]", "{n}.append({v})"
    ),
    "weakly held": Holder(
        "{n}_ = [A({v})]\n{n} = weakref.ref({n}_[0])",
        "getattr({n}(), 'k', 1.0)",
    ),
    "weak dictionary": Holder(
        "{n}_ = {{'v': A({v})}}\n{n} = weakref.WeakValueDictionary({n}_)",
        "getattr({n}.get('v'), 'k', 1.0)",
    ),
    "generic attribute": Holder(
        "{n} = C()\n{n}.v = {v}", "{n}.v", "setattr({n}, 'v', {v})"
    ),
    "argument": Holder("{n} = {v}", "{n}"),
    "getter": Holder(
        "{n}_ = operator.attrgetter('k')\n{n} = A({v})", "{n}_({n})"
    ),
    "exception": Holder(
        "def {n}():\n    try:\n        raise ValueError({v})\n"
        "    except ValueError as error:\n        return error.args[0]",
        "{n}()",
    ),
    "generator": Holder(
        "{n}_ = [{v}]\ndef {n}():\n    yield {n}_[0]", "next({n}())"
    ),
    "managed": Holder(
        "{n}_ = [{v}]\ndef {n}():\n    with managed({n}_[0]) as v:\n"
        "        return v",
        "{n}()",
    ),
}
_ORDINARY = ("attribute", "item", "list item", "global", "written global")


def choose_holder(rng: random.Random) -> str:
    """One of HOLDERS, ordinary ones more often."""
    if rng.random() < 0.35:
        return rng.choice(_ORDINARY)
    return rng.choice(list(HOLDERS))


def choose_kind(rng: random.Random) -> str:
    """One of VALUES' kinds, by weight."""
    return rng.choices(list(KINDS), list(KINDS.values()))[0]
