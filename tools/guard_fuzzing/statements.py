"""Statements of programs.

`{q}` is a number, a truth value or a short text; `{t}` and `{u}` are tensors;
`{w}` sets a place of the world to something; `{e}` is another statement.
"""

from __future__ import annotations

# What becomes of a number.
USES = """\
y = y * {q}
y = y * {q}
y = y * {q}
y = y + {q}
y = y + {q}
y = y - float({q})
y = torch.full_like(y, {q})
y = y.clone(); y[..., 0] = {q}
y = torch.where(y > {q}, y, -y)
y = y * (2.0 if {q} else 3.0)
y = y * (2.0 if {q} else 3.0)
y = y + 1 if {q} else torch.relu(y)
y = y + torch.tensor([{q}])
y = y + torch.tensor({q}).float()
y = y.roll(int({q}) % 3)
y = torch.add(y, y, alpha={q})
y = y.clamp(max={q})
y = y[..., : 1 + int({q}) % 3]
extra.append({q})
extra.append({q})
y = y / ({q} + 1)
y = y + y.new_full((1,), {q})
y = torch.stack([y * i for i in range(1 + int({q}) % 3)]).sum(0)
y, v = y * {q}, {q}; y = y + v
y = y + numpy.float32({q}).item()
v = [{q}, 1.0]; y = y + torch.tensor(v)[0]
v = {{'a': {q}}}; y = y * v['a']
y = y + torch.as_tensor(float({q}))
y = y.masked_fill(y > 1, float({q}))
y[..., 0] = {q}
y = torch.nn.functional.leaky_relu(y, {q})
v = y.clone(); v.fill_({q}); y = y + v
y = y.to(torch.float64) * {q}
y = y ** (1 + int({q}) % 2)
y = sum([y * k for k in ({q}, 1.0)])
y = y * (lambda k: k + 1)({q})
y = torch.lerp(y, y + 1, float({q}))
y = y + torch.arange(3.0)[int({q}) % 3]""".splitlines()
BRANCHES = [
    "if {q}:\n    {e}\nelse:\n    y = y * 2",
    "while int({q}) > 3:\n    y = y + 1\n    break",
    "for _ in range(int({q}) % 4):\n    {e}",
    "match {q}:\n    case 1 | 2.0:\n        {e}\n"
    "    case _:\n        y = y + 3",
    "try:\n    y = y * {q}\n    {e}\nexcept Exception as error:\n"
    "    extra.append(type(error).__name__)",
    "assert {q}, 'fuzz'\n{e}",
    "if not {q}:\n    raise ValueError('fuzz')",
]

TENSORS = """\
y = torch.relu(y)
y = torch.tanh(y) + {t}
y = y + {t}
y = y * {t}
y = {t} * y
y = y - {t}
y = y @ M
y = torch.sin(y) * 2
y = y.sum(-1, keepdim=True) + y
y = y.reshape(-1)
y = y.view(-1)[:3]
y = y[..., 0:2]
y = y.clone()
y = torch.cat([y.flatten(), {t}.flatten()])[:3]
y = y.t() if y.dim() == 2 else y
y = y.flip(-1)
y = y.cumsum(-1)
y = y.softmax(-1)
y = y.sort(-1).values
y = y.topk(1).values + y
y = torch.where(y > 0, y, {t})
y = y.neg().abs()
y = y.unsqueeze(0) + {t}
y = y.mean() + y
y = y.exp().log()
y = y.sqrt()
y = y / {t}
y = F.gelu(y)
y = F.layer_norm(y, y.shape[-1:])
y = y.to(torch.float64).float()
y = y.detach()
y = y.contiguous()
y = y.expand(2, *y.shape)[0]
y = y.chunk(2, -1)[0]
y = y.index_select(-1, torch.tensor([0, 0, 0]))
y = y.max(-1, keepdim=True).values * y
y = torch.stack([y, {t} + y]).sum(0)
y += 1
y *= 2
y.add_(1)
y.mul_({t})
y[..., 0] = 3
v = y.view(-1); v[0] = 7
v = y.clone(); v.add_({t}); y = y + v
v = y[..., :1]; y = y + v
y = torch.add(y, {t}, alpha=2)
y = (y.reshape(1, -1) @ y.reshape(-1, 1)).sum() + y
y = y + torch.zeros_like(y)
{t}.add_(1)
{t}.mul_(0.5)
{t}.copy_(y.detach().sum())
{t}[..., 0] = y.detach().sum()
with torch.no_grad(): {t}.add_(1)
with torch.no_grad(): {t}.copy_(y.sum())
{t}.zero_()
torch.add({u}, 1, out={u})
{t}.data.add_(1)
torch._foreach_add_([{t}, {u}], 1.0)
torch._foreach_mul_([{t}, {u}], 2.0)
extra.append({t})
extra.append({t} * 2)
extra.append({t}.detach())
extra.append(y)
extra.append(y.view(-1))
extra.append(y.detach())
extra.append(y[..., 0])
y = y + ARR.sum().item()
ARR[0] += 1; y = y + SHARED.sum()
SHARED.add_(1); y = y + float(ARR[0])
y = y + torch.from_numpy(ARR)
y = y + ARR
y = LIN(y)
y = LIN(y) + LIN.bias
y = BN(y.reshape(-1, 1).expand(-1, 3)).sum(0) + y
y = OUTER(y)
y = F.linear(y, M)
y = F.dropout(y, 0.5)
y = y + torch.rand(3)
y = y + torch.rand(1, generator=TRNG)
y = y + torch.randn_like(y)
y = torch.bernoulli(torch.sigmoid(y)) + y
v = y.nonzero(); y = y + v.shape[0]
y = y[y > 0]
y = y + torch.tensor(y.shape).sum()
y = y + y.size(0) + y.ndim
y = torch.einsum("...i,i->...i", y, {t})
y = y + {t}.T.sum()
y = torch.complex(y, y).abs()
with torch.no_grad(): y = y * 2
with torch.enable_grad(): y = y * 2
with torch.inference_mode(): y = y * 2
with torch.autocast("cpu", dtype=torch.bfloat16): y = y + M @ M[0]
y = torch.utils.checkpoint.checkpoint(torch.sin, y, use_reentrant=False)
y = y - y.item() if y.numel() == 1 else y
y = -y + ~(y > 0)
y = (y > {t}).float() + y // 2 + y % 3
y = y.requires_grad_() if y.is_leaf else y
y = functools.reduce(torch.add, [y, {t}, y])
y = torch.stack(list(map(torch.relu, [y, y]))).amax(0)
y = [k * y for k in (1, 2) if k][-1]
y = {{'a': y, 'b': {t}}}['a'] + 1
y, v = (y, {t}); y = y + v
y = y.new_tensor([1.0]) + y
y = (y + {t}).sum().sqrt() + y""".splitlines()

TRAINING = [
    "(y * P).sum().backward()",
    "loss = ((y.detach() * P) ** 2).sum()\nOPT.zero_grad()\nloss.backward()\n"
    "OPT.step()\nextra.append(loss.detach())",
    "loss = (P.sqrt() * y.detach()).sum()\nP.grad = None\nloss.backward()\n"
    "extra.append(loss)",
    "loss = ((P - 2).sqrt() * y.detach()).sum()\nP.grad = None\n"
    "loss.backward()\nextra.append(loss.detach())",
    "loss = LIN(y.detach().reshape(-1)[:1].expand(3)).sum()\n"
    "LIN.zero_grad()\nloss.backward()",
    "ADAM.zero_grad()\n((y.detach() - P) ** 2).sum().backward()\nADAM.step()",
    "v, = torch.autograd.grad((P * y.detach()).sum(), [P])\ny = y + v",
    "y = y * P",
    "y = y * P\nextra.append((P * 2).sum())",
    "extra.append(P.detach())",
    "with torch.no_grad():\n    v = P.view(-1)\nextra.append(v)",
    "with torch.no_grad():\n    P.sub_(0.5)",
    "P.grad = None",
    "if P.grad is not None:\n    y = y + P.grad",
    "with torch.no_grad():\n    if P.grad is not None:\n        P -= P.grad",
    "{t}.sum().backward()",
    "y = y * {t}\nextra.append({t}.grad)",
    "OPT.step()",
    "torch.nn.utils.clip_grad_norm_([P], 1.0)",
]

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
GEN.send(None)""".splitlines()

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
x""".splitlines()
