"""Classes and functions that a world has if its texts name them, in order."""

from __future__ import annotations

BLOCKS = {
    "A": """\
class A:
    gain = 2.0
    def __init__(self, k=1.5):
        self.k = k
    def scale(self, v):
        return v * self.k
    @property
    def twice(self):
        return self.k * 2
""",
    "B": """\
class B:
    gain = 3.0
    def __init__(self, k=2.5):
        self.k = k
    def scale(self, v):
        return v + self.k
    def __len__(self):
        return 3
    @property
    def twice(self):
        return self.k + 2
""",
    "C": """\
class C:
    gain = 0.5
    level = 1
    def __init__(self, k=0.5):
        self.k, self.parts = k, [k, 2.0]
    def __call__(self, v):
        return v - self.k
    def __getitem__(self, key):
        return self.parts[key % 2 if key < 9 else key]
    def __getattr__(self, name):
        return 1.25 if name != "__dict__" and name[0] != "_" else None
    scale = __call__
""",
    "Child": """\
class Child(A):
    gain = 4.0
    def scale(self, v):
        return super().scale(v) + 1
""",
    "Config": """\
@dataclasses.dataclass(eq=False)
class Config:
    k: float = 2.0
    gain: float = 0.5
    def scale(self, v):
        return v * self.gain
""",
    "Options": """\
@dataclasses.dataclass
class Options:
    k: float = 2.0
    gain: float = 1.5
    table: dict = dataclasses.field(default_factory=lambda: {"a": 1.0})
    def scale(self, v):
        return v - self.gain
""",
    "Slotted": """\
class Slotted:
    __slots__ = ("k", "gain", "__weakref__")
    def __init__(self, k=1.0):
        self.k, self.gain = k, 2.0
    def scale(self, v):
        return v * 2
""",
    "Pair": 'Pair = collections.namedtuple("Pair", "k gain")\n',
    "Kind": """\
class Kind(enum.Enum):
    ADD = 1
    MUL = 2
    @property
    def k(self):
        return self.value * 0.5
    gain = property(lambda self: len(self.name))
""",
    "Abc": "class Abc(abc.ABC):\n    gain = 2.0\n",
    "Plug": "class Plug:\n    gain, k = 1.0, 2.0\n",
    "First": "class First(Plug):\n    gain = 2.0\n",
    "Meta": """\
class Meta(type):
    level = 2.0
    def __len__(cls):
        return 2
""",
    "Kept": "class Kept(metaclass=Meta):\n    gain, k = 3.0, 1.0\n",
    "Loud": """\
class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        def plain(v):
            return v.as_subclass(torch.Tensor) if isinstance(v, Loud) else v
        found = func(*map(plain, args), **(kwargs or {}))
        return found + 100 if type(found) is torch.Tensor else found
""",
    "Desc": """\
class Desc:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, 1.0)
    def __set__(self, obj, value):
        setattr(obj, self.name, value)
""",
    "double": "def double(v, by=2.0, *, plus=0.0):\n    return v * by + plus\n",
    "shift": "def shift(v, by=1.0):\n    return v + by\n",
    "gain_of": """\
@functools.singledispatch
def gain_of(v):
    return 5.0
@gain_of.register
def _(v: Abc):
    return 7.0
""",
    "remember": """\
@functools.lru_cache(maxsize=2)
def remember(n):
    return n * 2.0
""",
    "Scope": """\
class Scope:
    depth = 0
    def __enter__(self):
        Scope.depth += 1
        return self
    def __exit__(self, *error):
        Scope.depth -= 1
        return error[0] is KeyError
SCOPE = Scope()
""",
    "SCOPE": "",
    "managed": """\
@contextlib.contextmanager
def managed(value):
    yield value
""",
    "items_of": """\
def items_of(n):
    for i in range(n):
        yield i + 1.0
""",
    "KNOWN": "KNOWN = [A(), Config(), 1.0, 'a', None]\n",
    "SPECIAL": "SPECIAL = Config()\n",
    "TABLE": "TABLE = {SPECIAL: 5.0, 1: 2.0, 'a': 3.0, A: 4.0, None: 0.5}\n",
    "NAMES": "NAMES = {A: 2.0, Config: 3.0, float: 4.0}\n",
    "LIST": "LIST = [1.0]\n",
    "LOG": """\
class Keep(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []
    def emit(self, record):
        self.lines.append(record.getMessage())
LOG = logging.Logger("fuzz", logging.INFO)
LOG.addHandler(Keep())
""",
    "P": "P = nn.Parameter(torch.tensor([1.0, 2.0, 4.0]))\n",
    "OPT": "OPT = torch.optim.SGD([P], lr=0.25)\n",
    "ADAM": "ADAM = torch.optim.Adam([P], lr=0.125, foreach=False)\n",
    "LIN": """\
LIN = nn.Linear(3, 3)
with torch.no_grad():
    LIN.weight.copy_(torch.eye(3) * 2)
    LIN.bias.fill_(0.5)
""",
    "BN": "BN = nn.BatchNorm1d(3)\n",
    "OUTER": """\
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 2.0
        self.body = wrap(nn.Identity())
        self.body2 = wrap(nn.PReLU())
    def forward(self, v):
        return self.body2(self.body(v)) * self.k
OUTER = Outer()
""",
    "M": "M = torch.eye(3) * 2\n",
    "T0": "T0 = torch.tensor([1.0, 2.0, 3.0])\n",
    "ARR": "ARR = numpy.array([1.0, 2.0, 3.0], 'f')\n",
    "SHARED": "SHARED = torch.from_numpy(ARR)\n",
    "VAR": 'VAR = contextvars.ContextVar("var", default=1.5)\n',
    "LOCAL": "LOCAL = threading.local()\nLOCAL.k = 1.5\n",
    "RNG": "RNG = random.Random(3)\n",
    "NRNG": "NRNG = numpy.random.RandomState(3)\n",
    "GRNG": "GRNG = numpy.random.default_rng(3)\n",
    "TRNG": "TRNG = torch.Generator().manual_seed(3)\n",
    "CACHE": "CACHE = collections.OrderedDict(a=1.0, b=2.0)\n",
    "GROUPS": "GROUPS = collections.defaultdict(list, a=[1.0])\n",
    "BOOK": "BOOK = types.SimpleNamespace(lines=collections.defaultdict(A))\n",
    "HIST": "HIST = [1.0]\n",
    "COUNT": "COUNT = itertools.count()\n",
    "KEPT": "KEPT = {1.0}\n",
    "QUEUE": "QUEUE = collections.deque([1.0], maxlen=3)\n",
    "QUEUE2": "QUEUE2 = [1.0, 2.0]\n",
    "cached_of": """\
@functools.cache
def cached_of(shape):
    return len(shape) * 2.0
""",
    "Twice": """\
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return v * 2
    @staticmethod
    def backward(ctx, g):
        return g * 3
""",
    "Scaled": """\
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(v, by):
        return v * by
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.by = inputs[1]
    @staticmethod
    def backward(ctx, g):
        return g * ctx.by + ctx.saved_tensors[0], None
""",
    "Attrs": """\
class Attrs(dict):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.__dict__ = self
""",
    "later": "async def later(v):\n    return v\n",
    "small": """\
@functools.lru_cache(maxsize=1)
def small(n):
    return SPECIAL.k
""",
    "GEN2": """\
def sums():
    total = 0.0
    while True:
        total += (yield total)
GEN2 = sums()
next(GEN2)
""",
    "SUM": """\
class Sum:
    def __init__(self):
        self.n, self.total = 0, 0.0
    def add(self, v):
        self.n, self.total = self.n + 1, self.total + v
        return self.total / self.n
SUM = Sum()
""",
    "SAID": """\
class Said:
    def __init__(self):
        self.k, self.name = 1.5, "said"
    def __str__(self):
        return f"{self.name} {self.k}"
SAID = Said()
class Quiet(Said):
    __str__ = object.__str__
    def __repr__(self):
        return "quiet " + str(self.k)
QUIET = Quiet()
class Formed(Said):
    def __format__(self, spec):
        self.name += "."
        return spec + str(self.k)
FORMED = Formed()
""",
    "FOREACH": "FOREACH = torch.optim.Adam([P], lr=0.125, foreach=True)\n",
    "WEAKKEYS": "WEAKKEYS = weakref.WeakKeyDictionary()\n",
    "SCHED": "SCHED = torch.optim.lr_scheduler.StepLR(OPT, 2, 0.5)\n",
    "MLP": """\
MLP = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
for _p in MLP.parameters():
    nn.init.constant_(_p, 0.5)
""",
    "TIED": """\
TIED = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
TIED["b"].weight = TIED["a"].weight
for _p in TIED.parameters():
    nn.init.constant_(_p, 0.25)
TIED.forward = lambda v: TIED["b"](TIED["a"](v))
""",
    "GRU": "GRU = nn.GRU(1, 2)\nfor _p in GRU.parameters():\n"
    "    nn.init.constant_(_p, 0.5)\n",
    "GEN": "GEN = items_of(1000)\nnext(GEN)\n",
    "TOLD": """\
class Told:
    def __init__(self):
        self.n, self.lines = 0, []
    def __call__(self, text):
        self.n += 1
        self.lines.append(str(text))
TOLD = Told()
mica.annotate(TOLD, "host")
""",
    "WEAK": """\
OWNER = [A()]
REF = weakref.ref(OWNER[0])
WEAK = weakref.WeakValueDictionary(a=OWNER[0])
""",
    "OWNER": "",
    "REF": "",
    "STILL": """\
with torch.inference_mode():
    STILL = nn.Linear(16, 16)
    STILL.weight.fill_(0.25)
    STILL.bias.zero_()
""",
    "BIG": """\
BIG = nn.Linear(16, 16)
with torch.no_grad():
    BIG.weight.fill_(0.25)
    BIG.bias.zero_()
""",
}
# Names that another block makes.
for _name, _maker in (
    ("SCOPE", "Scope"),
    ("OWNER", "WEAK"),
    ("REF", "WEAK"),
    ("QUIET", "SAID"),
    ("FORMED", "SAID"),
):
    BLOCKS[_name] = f"# {_maker}\n"
