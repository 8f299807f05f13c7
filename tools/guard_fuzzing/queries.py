"""Numbers that a program makes of what it reads; `{r}` is what it reads."""

from __future__ import annotations

_NUMBER = """\
{r}
{r}
{r}
{r} + 1
{r} * 0.5
float({r})
int({r})
{r} > 1
{r} == 2
{r} in (1, 2.0)
{r} in KNOWN
TABLE.get({r}, 1.5)
abs({r})
round({r})
max({r}, 1)
min({r}, 2.5)
-{r}
{r} % 3
{r} // 2
len(str({r}))
len("{{}}".format({r}))
bool({r})
isinstance({r}, float)
NAMES.get(type({r}), 1.0)
{r} is None
{r} if {r} else 3.0
({r} or 2.0)
double({r})
sum([{r}, 1.0])
math.floor({r})
remember({r})
divmod({r}, 2)[0]
[1.0, 2.0, 3.0][int({r}) % 3]
hash({r} if {r} == {r} and isinstance({r}, (int, str)) else 0) % 7
{r} is {r2}
{r} == {r2}
{r} < {r2}
numpy.float32({r}).item()
math.copysign(1.0, {r})
len(f"{{{r}:.2f}}")
len(f"{{{r}!r}}")
({r}).is_integer()
({r}).real
({r}).__class__ is float
str({r})[0] == "1"
({r}).as_integer_ratio()[1]
math.isclose({r}, 2.0)
math.isnan({r})
operator.gt({r}, 1)
1 < {r} < 3
{r} not in (1, 2.0)
[1.0, 2.0, 0.5].count({r})
any(k == {r} for k in (1, 2.0))
bisect.bisect([1, 2, 3], {r})
({r}) ** 2
int({r}) << 1
int({r}) & 3
~int({r})
pow(2, int({r}) % 4)
math.trunc({r})
math.ceil({r})
round({r}, 1)
complex({r}).real
fractions.Fraction({r}).numerator
numpy.float64({r}) > 1
next((k for k in (1, 2.0, 3) if k == {r}), 9.0)
min((1.0, 2.0), key=lambda k: abs(k - {r}))
{{1: 2.0, 2: 3.0}}.get({r}, 1.5)
("a", "b").index("ab"[bool({r})])
sorted([{r}, 1.0])[0]
sum(1 for k in range(int({r}) % 4))
{r} and 2.0
not {r}
({r}, 1) == ({r2}, 1)
max({r}, {r2})
({r}, {r2})[{r} < {r2}]
{r} + {r2}
float("%.3f" % {r})
int(str(int({r})))
torch.tensor({r}).item()
len(torch.zeros(int({r}) % 4))
torch.iinfo(torch.int8).max > {r}
Kind.ADD.value == {r}
A({r}).k
isinstance({r}, (int, bool))
type({r}) is type({r2})
{r} != {r}
hash(({r}, 1)) == hash((2.0, 1)) if {r} == {r} else 0.5""".splitlines()

_OBJECT = """\
{r}.k
{r}.gain
{r}.scale(2.0)
isinstance({r}, A)
isinstance({r}, Abc)
issubclass(type({r}), Abc)
isinstance({r}, (B, Config))
type({r}) is A
type({r}) == type({r2})
NAMES.get(type({r}), 1.0)
{r} == SPECIAL
{r} in KNOWN
{r} is {r2}
TABLE.get({r}, 1.0)
hasattr({r}, "level")
getattr({r}, "extra", 0.25)
len(getattr({r}, "__dict__", ()))
list(getattr({r}, "__dict__", "a"))[0] == "k"
gain_of({r})
bool({r})
{r}.twice if hasattr({r}, "twice") else 1.0
len(type({r}).__name__)
len(type({r}).__mro__)
callable({r})
copy.copy({r}).k
operator.attrgetter("gain")({r})
getattr({r}, "k") + 1
len({{{r}, {r2}}})
sum(1 for v in vars({r}).values() if v)
len({{id(a) for a in ({r}, {r2})}})
{r}.__class__ is A
int({r} != {r2})
len(type({r}).__subclasses__())
{r}.k == {r2}.k
{r} in [A(), 1.0]
{r} in (SPECIAL, A())
{r} in {{1.0: 2, 'a': 3}}
[SPECIAL, {r}].index({r})
[{r}].count({r2})
({r}, 1) == ({r2}, 1)
({r}, 1) in {{(SPECIAL, 1): 2.0}}
{{{r}: 1.0}}.get({r2}, 2.0)
[{r}] == [{r2}]
{r} != {r2}
{r} < {r2} if hasattr({r}, "__lt__") and 0 else 1.0
vars({r}).get("k", 1.0)
sorted(vars({r}))[0] == "k"
"k" in dir({r})
getattr(type({r}), "gain", 1.0)
super(Child, {r}).scale(2.0) if isinstance({r}, Child) else 1.0
{r}.scale.__self__ is {r}
type({r})().k
type({r}).scale({r}, 2.0)
functools.partial(type({r}).scale, {r})(2.0)
operator.methodcaller("scale", 2.0)({r})
copy.deepcopy({r}).k
dataclasses.asdict({r})["k"]
len(dataclasses.fields({r}))
sum(map(lambda v: v.k, [{r}, {r2}]))
max([{r}, {r2}], key=lambda v: v.k) is {r}
sorted([{r}, {r2}], key=operator.attrgetter("k"))[0].k
{r}.__dict__["k"]
{r}.__dict__.get("fresh", 0.5)
any(v is {r} for v in KNOWN)
all([{r}])
len(list({r})) if hasattr({r}, "__iter__") else 1.0
len({r}) if hasattr({r}, "__len__") else 1.0
{r}.__class__.__name__ == "A"
type({r}).__mro__[1] is object
inspect.isclass({r})
"scale" in vars(type({r}))
len(f"{{{r}.k}}")
weakref.ref({r})() is {r}
weakref.ref({r}) == weakref.ref({r2})
len({{id(v) for v in ({r}, {r2})}})
remember({r}.k)
not {r}
1.0 if {r} else 2.0
({r} or A()).k""".splitlines()

_CLASS = """\
{r}.gain
{r}.k if hasattr({r}, "k") else 1.0
{r}().gain
len({r}.__subclasses__())
sum(c.gain for c in {r}.__subclasses__())
issubclass({r}, Abc)
issubclass({r}, A)
{r} is A
NAMES.get({r}, 1.0)
isinstance({r}(), {r})
len({r}.__name__)
len({r}.__mro__)
"level" in vars({r})
{r}.__bases__[0] is object
callable({r})
bool({r})
{r}.__qualname__ == "A"
len(vars({r}))
{r} == A
{r} in (A, B)
{r} in {{A: 1.0}}
{r}.scale({r}(), 2.0)
{r}.__module__ == "fuzz"
getattr({r}, "level", 0.5)
"scale" in dir({r})
type({r}) is type
isinstance({r}, type)
[A, {r}].index({r})
next((k for k in {r}.__mro__ if "gain" in vars(k)), A).gain
{r}.__dict__.get("gain", 1.0)
{r}.__init__ is A.__init__
copy.copy({r}()).k
{r}() == {r}()
len({{{r}(), {r}()}})
len({{hash(v) for v in ({r}(), {r}())}})""".splitlines()

_LIST = """\
len({r})
{r}[0]
{r}[-1]
sum(v for v in {r} if isinstance(v, float))
1.0 in {r}
sum(i * len(str(v)) for i, v in enumerate({r}))
max(len(str(v)) for v in {r})
next(iter({r}))
len({r}[1:])
[v for v in {r} if v][0]
{r} == [1.0, 2.0]
bool({r})
tuple({r})[0]
list(reversed({r}))[0]
{r}.index({r}[0])
len(set(map(str, {r})))
{r}.count(1.0)
(lambda first, *rest: len(rest))(*{r})
A() in {r}
[1.0] in [{r}]
{r} in [[1.0], [2.0]]
{r} < [2.0]
sorted({r}, key=str)[0]
sum(1 for v in {r} if v == 1.0)
next((i for i, v in enumerate({r}) if v == 2.0), 9)
any(v is {r}[0] for v in {r})
len({r} + [1.0])
({r} * 2)[-1]
{r}[::-1][0]
min({r}, key=str)
dict(enumerate({r}))[0]
[*{r}, 1.0][0]
list(zip({r}, {r}))[0][1]
str({r})[1] == "1"
len(repr({r}))
len(f"{{{r}}}")
sum(a is b for a, b in zip({r}, {r2}))
{r} is {r2}
{r} == {r2}
len({{id(v) for v in ({r}, {r2})}})
list(map(type, {r}))[0] is float
functools.reduce(lambda a, b: b, {r})
copy.copy({r})[0]
copy.deepcopy({r})[-1]
collections.Counter(map(str, {r})).most_common(1)[0][1]
bisect.bisect_left({r}, 1.5)
isinstance({r}, collections.abc.Sequence)""".splitlines()

_DICT = """\
{r}["a"]
{r}.get("b", 0.5)
len({r})
list({r})[0] == "a"
next(iter({r}.values()))
sum(i for i, k in enumerate({r}) if k == "a")
"b" in {r}
{r}.setdefault("c", 1.5)
len([*{r}.items()])
dict({r}, a=3.0)["a"]
{r} == {{'a': 1.0, 'b': 2.0}}
sorted({r})[0] == "a"
(lambda **k: len(k))(**{r})
{r}.pop("b", 0.25)
{{**{r}, 'z': 1.0}}["a"]
list({r}.values())[-1]
{r} is {r2}
{r} == {r2}
A() in {r}
{r}.get(A(), 0.5)
"a" in {r}.keys()
1.0 in {r}.values()
("a", 1.0) in {r}.items()
max({r})
min({r}.values(), key=str)
{{v: k for k, v in {r}.items()}}.get(1.0, "z") == "a"
dict(sorted({r}.items())) == {r}
len(str({r}))
len({r} | {{'q': 1}})
[k for k in {r}][-1] == "b"
list(reversed({r}))[0] == "a"
next(iter({r}.items()))[1]
copy.copy({r}).get("a", 2.0)
copy.deepcopy({r}).get("a", 2.0)
list({r}.copy())[0] == "a"
type({r}) is dict
{r}.__contains__("a")
operator.itemgetter("a")({r})
collections.ChainMap({r}, {{'b': 0.0}})["b"]
sum(len(str(k)) * i for i, (k, v) in enumerate({r}.items()))""".splitlines()

_OTHER = """\
len({r})
1.0 in {r}
sum({r})
next(iter({r}))
bool({r})
list({r})[0]
sorted({r})[-1]
max({r})
type({r}) is tuple
A() in {r}
{r} == {r2}
tuple({r}) == (1.0, 2.0)
len(str({r}))
set({r}) == {{1.0, 2.0}}
min({r}, default=2.0)
any({r})
copy.copy({r}) == {r}
isinstance({r}, collections.abc.Set)""".splitlines()

_TENSOR = """\
{r}.shape[0]
len({r}.shape)
{r}.requires_grad
{r}.dtype is torch.float32
{r}.is_contiguous()
{r}.stride(0)
type({r}) is torch.Tensor
isinstance({r}, nn.Parameter)
{r}.grad is None
{r}.is_leaf
{r}.sum().item()
bool(({r} > 0).all())
{r} is {r2}
{r}.numel()
hasattr({r}, "tag")
{r}.tolist()[0]
int({r}.max())
{r}.is_inference()
{r}.device.type == "cpu"
{r}.storage_offset()
{r}.dim() == {r2}.dim()
float({r}.mean()) > 1
{r}.numpy()[0]
any({r} is v for v in (M, T0))
len({{v.data_ptr() for v in ({r}, {r2})}})
{r}._base is None
{r}.is_floating_point()
{r}.element_size()
{r}.nelement()
{r}.untyped_storage().nbytes()
{r}.grad_fn is None
getattr({r}, "tag", 2.0)
len({r}._backward_hooks or ())
{r}._version >= 0
torch.equal({r}, {r2})
torch.is_tensor({r})
{r}.is_complex()
{r}.is_conj()
{r}.names[0] is None
isinstance({r}, torch.FloatTensor)
torch.allclose({r}.float(), torch.ones(3))
{r}.argmax().item()
{r}[0].item() if {r}.dim() else 1.0
float({r}.std()) > 0.5
{r} in [1.0]
{r}.layout is torch.strided
len({{{r}: 1, {r2}: 2}})
[{r}].index({r})
len({{id(v) for v in ({r}, {r2})}})
len({{hash(v) for v in ({r}, {r2})}})
{r}.shape == {r2}.shape
{r}.dtype == {r2}.dtype
str({r}.shape) == "torch.Size([3])"
len(str({r}))
len(f"{{{r}.sum().item():.1f}}")
torch.result_type({r}, 1.0) is torch.float32
{r}.is_shared()
{r}.retains_grad""".splitlines()

QUERIES: dict[str, list[str]] = {
    "float": _NUMBER,
    "int": _NUMBER,
    "bool": ["{r}", "not {r}", "int({r})", "{r} is True", "{r} == {r2}"],
    "text": [
        "len({r})",
        "{r} == 'a'",
        "getattr(A(), {r}, 1.0)",
        "TABLE.get({r}, 1.0)",
        "{r} in KNOWN",
        "{r}.startswith('b')",
        "len('%s-' % {r})",
        "'a' < {r}",
        "{{'a': 2.0}}.get({r}, 3.0)",
    ],
    "none": ["{r} is None", "{r} or 2.0", "1.0 if {r} else 2.0"],
    "object": _OBJECT,
    "class": _CLASS,
    "function": [
        "{r}(2.0)",
        "{r}(4)",
        "callable({r})",
        "{r}(2.0) + 1",
        "sum(map({r}, [1.0, 2.0]))",
        "{r} is {r2}",
        "{r} == {r2}",
        "getattr({r}, 'level', 0.5)",
        "len(getattr({r}, '__name__', ''))",
        "{r} in (double, abs)",
        "{{{r}: 2.0}}.get(double, 1.0)",
        "functools.partial({r}, 2.0)()",
        "max([1.0, 2.0], key={r})",
        "sorted([2.0, 1.0], key={r})[0]",
        "functools.reduce(lambda a, b: {r}(a), [1.0, 2.0])",
        "isinstance({r}, types.FunctionType)",
    ],
    "list": _LIST,
    "dict": _DICT,
    "other": _OTHER,
    "decimal": [
        "float({r} / 7)",
        "float({r})",
        "float({r} * {r} / decimal.Decimal(3))",
        "{r} > 1",
        "float(decimal.Decimal(2).sqrt())",
        "len(str({r} / 3))",
        "float(round({r} / 3, 4))",
    ],
    "fraction": ["float({r} + 1)", "{r}.numerator", "{r} < 1"],
    "array": [
        "{r}.sum().item()",
        "float({r}.max())",
        "{r}.shape == (3,)",
        "({r} * 2).tolist().__class__ is list",
        "float({r}.mean()) > 1",
        "{r}.ndim",
    ],
    "tensor": _TENSOR,
    "leaf": _TENSOR,
    "tensors": ["len({r})", "bool({r})"],
}

# What a program may ask of what lies around it.
AMBIENT = """\
threading.get_ident() == HOME
threading.current_thread() is threading.main_thread()
len(threading.current_thread().name)
threading.active_count()
sys.exc_info()[0] is None
sys.exc_info()[1] is not None
VAR in contextvars.copy_context()
contextvars.copy_context().get(VAR, 0.5)
VAR in list(contextvars.copy_context())
VAR.get()
getattr(LOCAL, "k", 0.5)
decimal.getcontext().prec
float(decimal.Decimal(1) / decimal.Decimal(7))
sys.getrecursionlimit() > 1200
len(os.environ.get("FUZZ", "ab"))
os.environ.get("FUZZ") is None
LOG.isEnabledFor(logging.INFO)
LOG.level
logging.root.level
len(Plug.__subclasses__())
sum(c.gain for c in Plug.__subclasses__())
torch.is_grad_enabled()
torch.is_inference_mode_enabled()
torch.get_default_dtype() is torch.float32
len(sys.argv)
"fuzzed" in sys.modules
(REF() or C()).k
WEAK.get("a", OWNER).__class__ is A
len(WEAK)
remember.cache_info().hits
remember(2.0)
CACHE["a"]
len(GROUPS["c"])
GROUPS.get("b", [1.0])[-1]
"b" in GROUPS
BOOK.lines["c"].k
Scope.depth
P.grad is None
P.requires_grad
isinstance(P, nn.Parameter)
OPT.param_groups[0]["lr"]
LIN.training
BN.num_batches_tracked.item()
len(list(OUTER.parameters()))
len(OUTER.state_dict())
OUTER.training
isinstance(OUTER.body, nn.Module)
len(LIN._forward_hooks)
float(ARR[0])
ARR.sum().item()
random.random()
RNG.random()
RNG.randint(0, 3)
numpy.random.rand()
NRNG.randint(3)
GRNG.random()
random.choice([1.0, 2.0])
int(RNG.random() * 3)
NRNG.randn()
SPECIAL.k
len(KNOWN)
SPECIAL in KNOWN
gain_of(A())
isinstance(A(), Abc)
Kind.ADD.value
Kind(1) is Kind.ADD
len(Kind)
float(sum(items_of(3)))
len(locals())
"A" in globals()
__name__ == "fuzz"
gc.isenabled()
len(inspect.signature(double).parameters)
torch.get_num_threads()
torch.iinfo(torch.int32).bits
torch.finfo(torch.float32).eps > 0
id(LIST) == id(LIST)
len(warnings.filters) > 3
len(LIST)
sys.getswitchinterval() > 1
sys.flags.optimize
time.time() > 0""".splitlines()
