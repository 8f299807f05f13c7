"""Statements of programs.

`{q}` is a number, a truth value or a short text; `{t}` and `{u}` are tensors;
`{w}` sets a place of the world to something; `{e}` is another statement.
"""

from __future__ import annotations

# Statements that leave something behind.
EFFECTS = """\
{w} = {q}
{w} = {q}
{w} = y.detach()
{w} = [{q}, y.detach()]
{w} = A({q})
{w} += 1
{w} = {w} + {q}
{l}.append({q})
{l}.append({q})
{l}.append(y.detach())
{l}.clear()
{l}.insert(0, {q})
{l}[0] = {q}
{l}.extend([1.0, {q}])
{l}.pop() if len({l}) > 2 else None
{l}.sort(key=str)
{l}.reverse()
{d}['a'] = {q}
{d}['n'] = {q}
{d}['a'] = {d}.pop('a', 1.0)
{d}.pop('n', None)
del {d}['a']
{d}.update(b={q})
{d}.setdefault('m', {q})
{d}.clear()
{d}['a'] = {d}.get('a', 0) + 1
{o}.k = {q}
{o}.k = y.detach()
{o}.k += 1
{o}.fresh = {q}
{o}.k = {o}.__dict__.pop('k', 1.0)
del {o}.fresh
{o}.__dict__.update(k={q})
setattr({o}, 'gain', {q})
print({q}, file={s})
print("fuzz", y.sum().item(), file={s})
print({l}, file={s})
print("fuzz", {q})
print({q}, {o}.k)
print({d}, file={s})
LOG.info("fuzz %s", {q})
LOG.info("fuzz %s", {l})
LOG.info("fuzz %s", {d})
LOG.warning("fuzz %s", {q})
LOG.debug("fuzz %s", {q})
warnings.warn("fuzz")
warnings.warn("fuzz %s" % {q}, UserWarning)
TOLD({q})
TOLD(y.detach())
remember(int({q}))
remember(len({l}))
CACHE.move_to_end('a')
CACHE['a'] = CACHE.pop('a')
CACHE['c'] = {q}
HIST.append({q} * 1.0); y = y + sum(HIST) / len(HIST)
HIST.append({t}.sum().item()); y = y + max(HIST[-3:])
y = y + len(HIST); HIST.append(1.0)
HIST.append({q}); y = y * HIST[-1] + HIST[-2]
QUEUE.append({q}); y = y + max(QUEUE)
HIST.extend([{q}, 1.0]); y = y + min(HIST)
del HIST[:-5]
h0 = LIN.register_forward_hook(lambda m, a, o: o * 2); y = LIN(y); h0.remove()
h0 = BN.register_forward_pre_hook(lambda m, a: (a[0] * {q},)); extra.append(h0)
h0 = P.register_hook(lambda g: g * 2); (P * {q}).sum().backward(); h0.remove()
GROUPS['b'].append({q})
GROUPS['n'] = GROUPS['a'] + [{q}]
GROUPS.clear()
y = y + len(GROUPS['b']) + len(GROUPS)
y = y * BOOK.lines['a'].k
BOOK.lines['b'].gain = {q}
BOOK.lines = collections.defaultdict(BOOK.lines.default_factory)
d0 = collections.defaultdict(lambda: {q}); y = y + d0['a'] + len(d0)
VAR.set({q})
LOCAL.k = {q}
next(COUNT)
Scope.depth += 1
A.gain = {q}
TABLE['n'] = {q}
KNOWN.append({q})
OWNER.clear()
RNG.seed(int({q}))
random.seed(3)
torch.manual_seed(3)
RNG.random()
Plug.fresh = {q}
A.gain += 1
setattr(double, 'level', {q})
KEPT.add({q})
QUEUE.append({q})
QUEUE.appendleft({q})
QUEUE.popleft() if len(QUEUE) > 1 else None
QUEUE.rotate(1)
globals()['NEW'] = {q}
LIN.weight.requires_grad_(False)
LIN.eval()
LIN.train()
OPT.param_groups[0]['lr'] *= 0.5
globals()['LATE'] = type('Late', (Plug,), {{'gain': 2.0}})
Abc.register(Config)
decimal.getcontext().prec = 6
GEN.send(None)
{l}.__iadd__([{q}])
{l}.remove({l}[0])
{l}[0:1] = [{q}, 2.0]
{l}[-1] = y.detach()
{l}.append({l}[0])
{l}.append(lambda k={q}: k)
heapq.heappush(QUEUE2, {q})
bisect.insort(QUEUE2, {q})
random.shuffle({l})
{d}.__setitem__('a', {q})
{d}['fresh'] = y.detach()
{d}['a'], {d}['b'] = {q}, 1.0
{d}['k'] = {d}.setdefault('k', {q})
{d}.popitem()
{d}.update({{'b': {q}, 'a': 1.0}})
{d}[{q}] = 1.0
vars({o})['k'] = {q}
{o}.__dict__['fresh'] = {q}
{o}.__dict__.update(fresh={q})
object.__setattr__({o}, 'k', {q})
{o}.k, v = {q}, 1.0
{o}.k = {o}.k
{o}.k = [{q}]
{o}.k = lambda v=1.0: v
{o}.__class__ = Child
{o}.gain *= 2
sys.stdout.write("fuzz %s" % {q})
print(f"fuzz {{{q}}}", end="")
print("fuzz", {q}, 1, sep="-", file={s})
print("fuzz", {t}.tolist(), file={s})
print("fuzz", list({d}.items()), file={s})
LOG.info("fuzz %r", {o}.k)
LOG.error("fuzz %(a)s", {{'a': {q}}})
LOG.log(20 if {q} else 10, "fuzz")
LOG.exception("fuzz")
warnings.warn("fuzz %s" % len({l}), RuntimeWarning)
warnings.warn("fuzz", stacklevel=2)
TOLD("%s %s" % ({q}, len({l})))
TOLD({t}.sum())
remember(int({q}) % 3); remember(1)
remember.cache_clear()
remember({q})
cached_of({t}.shape)
CACHE.popitem(last=False)
CACHE.setdefault('d', {q})
TABLE[{o}] = {q}
TABLE.pop(1, None)
KNOWN.remove(KNOWN[0]) if KNOWN else None
KNOWN.insert(0, {o})
WEAK['b'] = SPECIAL
WEAK.pop('a', None)
globals().pop('NEW', None)
globals()['A'] = B
VAR.reset(VAR.set({q}))
LOCAL.__dict__.clear()
LIN.bias.data.fill_({q})
LIN.register_buffer('late', y.detach())
LIN.k = {q}
LIN.weight = nn.Parameter(LIN.weight.detach() * 2)
BN.momentum = 0.5
BN.train(bool({q}))
BN.running_mean.zero_()
LIN.requires_grad_(bool({q}))
MLP[0] = nn.Identity()
MLP.train(bool({q}))
TIED.add_module('late', nn.Identity())
OPT.param_groups[0]['lr'] = {q}
OPT.state[P]['k'] = {q}
Plug.scale = double
del Plug.fresh
Kind.extra = {q}
double.__defaults__ = ({q},)
double.level = {q}
A.scale = lambda self, v: v * 3
setattr(A, 'level', {q})
numpy.random.seed(3)
NRNG.seed(int({q}))
TRNG.manual_seed(int({q}))
RNG.setstate(RNG.getstate())
RNG.shuffle({l})
GRNG.bit_generator.state = GRNG.bit_generator.state
torch.set_grad_enabled(bool({q}))
{l}.append({o}.__dict__)
{l}.append(vars({o}))
{d}['v'] = {o}.__dict__
vars({o}).update(gain={q})
{o}.__dict__.setdefault('fresh', {q})
{o}.__dict__.pop('fresh', None)
{o}.k = Attrs(a={q})
small({q})
small(1); small(2)
GEN2.send({q})
VAR.set([{q}])
SUM.add({q})
FOREACH.zero_grad(); (P * y.detach()).sum().backward(); FOREACH.step()
threading.Thread(target=setattr, args=({o}, 'k', {q})).run()
functools.update_wrapper(double, shift).level = {q}
weakref.WeakSet([{o}]).add(SPECIAL)
WEAKKEYS[{o}] = {q}
contextvars.copy_context().run(VAR.set, {q})
decimal.getcontext().rounding = decimal.ROUND_UP""".splitlines()

# A statement around others; `{b}` is their text.
WRAPPERS = [
    "with SCOPE:\n    {b}",
    "with managed(1.0) as v:\n    {b}",
    "with torch.no_grad():\n    {b}",
    "with contextlib.suppress(KeyError):\n    {b}",
    "with warnings.catch_warnings():\n    {b}",
    "with threading.Lock():\n    {b}",
    "with contextlib.nullcontext():\n    {b}",
    "with decimal.localcontext() as c:\n    c.prec = 4\n    {b}",
    "with torch.autograd.set_detect_anomaly(True):\n    {b}",
    "try:\n    {b}\nfinally:\n    y = y + 1",
    "try:\n    {b}\n    raise KeyError('fuzz')\n"
    "except KeyError:\n    y = y * 2",
    "def part(y):\n    {b}\n    return y\ny = part(y)",
    "for i in range(2):\n    {b}",
    "for v in items_of(2):\n    y = y + v\n    {b}",
    "if bool(y.sum() > 2):\n    {b}",
    "def part(y, k=2.0):\n    {b}\n    return y * k\n"
    "y = sum(part(y, k) for k in (1.0, 2.0))",
    "with contextlib.ExitStack() as v:\n    v.enter_context(SCOPE)\n    {b}",
    "with contextlib.redirect_stdout(io.StringIO()) as v:\n    {b}\n"
    "extra.append(v.getvalue())",
    "with torch.random.fork_rng(devices=[]):\n    {b}",
    "with torch.autograd.graph.save_on_cpu():\n    {b}",
    "with torch.autocast('cpu', enabled=bool({q})):\n    {b}",
    "with warnings.catch_warnings(record=True) as v:\n"
    "    warnings.simplefilter('always')\n    {b}\nextra.append(len(v))",
    "with numpy.errstate(all='ignore'):\n    {b}",
    "try:\n    {b}\n    int('fuzz')\nexcept ValueError as error:\n"
    "    extra.append(str(error))",
    "try:\n    {b}\nexcept (TypeError, ValueError):\n    y = y - 1\n"
    "else:\n    y = y + 2",
    "def part():\n    nonlocal y\n    {b}\n    yield y\n"
    "for v in part():\n    y = v * 2",
    "def part(f, *a, **k):\n    return f(*a, **k)\n"
    "def inner(y):\n    {b}\n    return y\ny = part(inner, y=y)",
    "@functools.wraps(double)\ndef part(y):\n    {b}\n    return y\n"
    "y = part(y) * len(part.__name__)",
    "y = (lambda y: y * 2)(y)\n{b}",
    "class Inner(A):\n    def run(self, y):\n        {b2}\n"
    "        return y\ny = Inner().run(y)",
]

# What a file's write(), a callback or a handler of the user's does.
ACTIONS = [
    "self.n += 1",
    "self.n += 1",
    "self.lines.append(text)",
    "self.seen.append({q})",
    "self.seen.append({q})",
    "self.seen.append((self.n, {q}))",
    "{w} = len(self.lines)",
    "{t}.add_(1)",
    "self.seen.append({t}.sum().item())",
    "if len(self.lines) % 5 == 4:\n    raise OSError('full')",
    "{l}.append(self.n)",
    "{o}.k = self.n",
    "self.seen.append(len({l}))",
    "self.seen.append(list({d}))",
    "if self.n % 3 == 2:\n    raise ValueError(text)",
    "{l}.clear()",
    "{d}['a'] = self.n",
    "{o}.fresh = text",
    "self.seen.append(torch.is_grad_enabled())",
    "self.seen.append(random.random())",
    "self.seen.append(sys.exc_info()[0] is None)",
    "A.gain = self.n",
    "self.lines = []",
]
SINK = """\
class {n}_:
    def __init__(self):
        self.n, self.lines, self.seen = 0, [], []
    def write(self, text):
        {a}
        if text != "\\n":
            self.lines.append(text)
            {b}
{n} = {n}_()"""
HANDLER = """\
class {n}_(logging.Handler):
    def __init__(self):
        super().__init__()
        self.n, self.lines, self.seen = 0, [], []
    def emit(self, record):
        text = record.getMessage()
        {a}
        {b}
{n} = {n}_()
LOG.addHandler({n})"""
HOOK = """\
class {n}_:
    def __init__(self):
        self.n, self.lines, self.seen = 0, [], []
    def __call__(self, text):
        {a}
        {b}
{n} = {n}_()
mica.annotate({n}, "host")"""

RESULTS = """\
y
y
y
y
extra
y.sum()
y.detach()
{t}
{q}
{o}
{'y': y, 'n': extra}
(y, y)
(y, y.view(-1))
Options(y)
y.sum().item()
Pair(y, extra)
[y, x]
(y, (y * 2).sum())
(y.sum(), y.detach().clone())
((y * P).sum(), (P * 2).sum())
[(y * P).exp(), (y + P).exp().sum()]
(y * P, (y * P).view(-1)[:1])
{t}.view(-1)
{t}.detach()
x.view(-1)[:2]
x.detach()
(lambda: y)
(lambda k={q}: k)
functools.partial(double, {q})
(extra, extra)
({t}, {t})
y.shape
(y.dtype, y.device)
{{{q}, 1.0}}
frozenset([{q}])
slice({q}, None)
range(int({q}) % 4)
Config({q})
A(y)
Child({q})
Slotted(y)
types.SimpleNamespace(k=y, gain={q})
collections.OrderedDict(b=y, a={q})
collections.defaultdict(list, a=[y])
collections.deque([y, {q}], maxlen=3)
y.detach().numpy()
y.numpy(force=True).sum()
str({q})
f"{{{q}}}"
{l}
{d}
list({d}.items())
type({o})
weakref.ref(SPECIAL)
iter([{q}])
ValueError({q})
(y if {q} else x)
y.grad_fn is None
None
{o}.__dict__
vars({o})
(vars({o}), {o})
[{o}, {o}.__dict__.update]
Attrs(a=y, b={q})
(Attrs(a=y), {q})
(y, small(1))
weakref.proxy(SPECIAL)
(v for v in (y, {q}))
functools.partial(torch.add, y)
types.MappingProxyType({'a': y})
x""".splitlines()
