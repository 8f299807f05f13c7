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
hash({r}) % 7
{r} is {r2}
{r} == {r2}
{r} < {r2}
numpy.float32({r}).item()
math.copysign(1.0, {r})""".splitlines()

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
len({{id({r}), id({r2})}})
{r}.__class__ is A
int({r} != {r2})
len(type({r}).__subclasses__())""".splitlines()

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
len(vars({r}))""".splitlines()

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
(lambda first, *rest: len(rest))(*{r})""".splitlines()

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
list({r}.values())[-1]""".splitlines()

_OTHER = """\
len({r})
1.0 in {r}
sum({r})
next(iter({r}))
bool({r})
list({r})[0]
sorted({r})[-1]
max({r})
type({r}) is tuple""".splitlines()

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
any({r} is v for v in (M, T0))""".splitlines()

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
    "function": ["{r}(2.0)", "{r}(4)", "callable({r})", "{r}(2.0) + 1"],
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
len(contextvars.copy_context())
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
