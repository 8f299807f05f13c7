# ruff: noqa: E501
"""Templates of branches, whole numbers and state. See templates.py."""

from __future__ import annotations

BRANCHES = """\
{y} = {t};;if {cond}:;;    {keep};;else:;;    {keep}
{y} = {t};;if {cond}:;;    {keep}
{y} = {t} if {cond} else {v}
{y} = {t} * (2 if {cond} else 3)
{y} = {t} + int({cond})
{y} = {t} * ({cond})
{y} = {t};;if {cond} and {cond}:;;    {keep}
{y} = {t};;if {cond} or {cond}:;;    {keep}
{y} = {t};;if {cond}:;;    {keep};;elif {cond}:;;    {keep};;else:;;    {keep}
assert {cond}, f"bad {{{t}.shape}}"
assert {t2}.shape[-1] == {T}.size(-1), f"bad {{{n}}}"
assert {n} < 1000, f"too large: {{{n}}}"
{y} = {t};;while {cond}:;;    {keep};;    break
{y} = {t};;{int} = {n};;while {N} > 1:;;    {N} //= 2;;    {y} = {y} + 1
{y} = {t};;{int} = {p};;while {N} % 4:;;    {N} += 1;;    {y} = {y} * 0.5
{y} = {t};;for i in range({p}):;;    {y} = {y} + i
{y} = {t};;for i in range({c}):;;    {y} = {y} * {f}
{y} = {t};;for i in range(0, {z0}, 2):;;    {y} = {y} + {T}[i].sum()
{y} = torch.stack([{t}[i] * i for i in range({z0})])
{y} = torch.stack([row.sum() for row in {t}])
{y} = {t};;for i, row in enumerate({T}):;;    {y} = {y} + row.sum() * i
{y} = torch.cat([{t}[i: i + 2].sum(0, keepdim=True) for i in range(0, {z0}, 2)])
{y} = torch.stack([part.sum() for part in {t}.split(2)])
{y} = torch.stack([part.sum() for part in {t}.chunk({c})])
{y} = sum(part.mean() for part in {t}.split({p}))
{y} = {t};;for a, b in zip({T}.shape, {u}.shape):;;    {y} = {y} + a * b
{y} = {t};;for a in {T}.shape:;;    {y} = {y} / a
{y} = {t};;for a in range({T}.dim()):;;    {y} = {y} + {T}.shape[a]
{y} = {t};;for a in range({n}, {n}):;;    {y} = {y} + a
{y} = {t};;match {n}:;;    case 2 | 4:;;        {keep};;    case _:;;        {keep}
{y} = {t};;try:;;    {y} = {y} * TABLE[{n}];;except IndexError:;;    {keep}
{y} = {t};;if {y}.sum() > {n}:;;    {keep}"""

CONDITIONS = """\
{n} > {c}
{n} > 5
{n} >= {n}
{n} == {n}
{n} != {n}
{n} < {n}
{n} % 2 == 0
{n} % {c}
{n} in (2, 4)
{n} not in [3, 5, 7]
{n} in {{2, 3, 5, 8}}
{c} < {n} <= 9
{t}.shape == {u}.shape
{t}.shape != {v}.shape
{t}.shape[0] == {u}.shape[-1]
{t}.shape[-1] < {u}.shape[0]
{t}.size(0) * 2 == {u}.size(-1)
{t}.shape > (3, 3)
{t}.shape[: 2] == (4, 5)
{t}.shape == (4, 5)
tuple({t}.shape) == (4, HID)
max({t}.shape) > 7
min({t}.shape) == {c}
sum({t}.shape) > 12
any(d % 2 for d in {t}.shape)
all(d > 2 for d in {t}.shape)
{t}.numel() > 24
{t}.numel() == {u}.numel()
len({t}) == {c}
not {n} - {c}
bool({n} - 2)
{n} is {n}
{n} is 4
{n} & 1
{n} // 2 == {n} // 2
({n}).bit_length() > 2
{n} / 2 > {f}
{f} > 1
math.isclose({f}, {f})
isinstance({n}, int)
{n} == 4.0
{n} > 3.5
str({n}) == "4"
{n} == True
{t}.is_contiguous()
{t}.stride(0) > 6
{t}.stride() == {u}.stride()
{t}.nbytes > 99
{t}.dim() == 3
{t}.shape is {T}.shape
{n} in {t}.shape
({n}, {n}) < ({c}, {c})
({n}, {c}) == ({n}, {c})
[{n}] == [{n}]
(d := {n}) > 2 and d % 3
{t}.shape[-1] == HID
{t}.shape[0] == CFG.k
{t}.shape[0] == GK
hash({n}) % 2
{t}.same_size({u}) if hasattr({t}, "same_size") else {n} > 2
{t}.is_same_size({u})
{t}.size() == {u}.size()
{t}.shape[:-1] == {u}.shape[:-1]
{t}.stride(-1) == 1
{t}.storage_offset() == 0"""

KEEPS = """\
{y} = {y} * {f}
{y} = {y} + {n}
{y} = {y} + 1
{y} = {y} * 2
{y} = {y} - {y}.mean()
{y} = {y}.flip(-1)
{y} = {y}.roll({n}, -1)
{y} = {y} / {n}
{y} = {y}.cumsum(0)
pass"""

# The first lines that are what everybody writes.
PLAIN_INTS = 12
INTS = """\
{int} = {n}
{int} = {n}
{int} = {t}.shape[{d}]
{int} = {t}.size({d})
{int}, {int} = {t2}.shape
{int}, {int}, {int} = {t3}.shape
{int}, {int}, _ = {t3}.size()
{int}, *_ = {t}.shape
*_, {int} = {t}.shape
{int}, {int} = {t}.shape[: 2]
{int}, {int} = {t}.shape[-2:]
({int}, {int}), _ = {t}.shape[: 2], 1
{int}, {int} = divmod({n}, {c})
{int}, {int} = {n}, {n}
{int} = len({t})
{int} = {t}.numel()
{int} = {t}.shape.numel()
{int} = {t}.nelement()
{int} = math.prod({t}.shape[1:])
{int} = math.prod({t}.shape)
{int} = functools.reduce(operator.mul, {t}.shape)
{int} = max({t}.shape)
{int} = min({t}.shape)
{int} = sum({t}.shape)
{int} = sorted({t}.shape)[0]
{int} = sorted({t}.shape)[-1]
{int} = {t}.shape.index({zl})
{int} = {t}.shape.count({z0})
{int} = list({t}.shape)[{d}]
{int} = [*{t}.shape][-1]
{int} = tuple({t}.shape)[0]
{int} = next(iter({t}.shape))
{int} = getattr({t}, "shape")[0]
{int} = {t}.__len__()
{int} = {t}.shape.__getitem__(-1)
{int} = operator.itemgetter({d})({t}.shape)
{int} = dict(zip("abcd", {t}.shape))["a"]
{int} = {{"n": {n}, "m": {c}}}["n"]
{int} = Shape({z0}, {zl}).b
{int} = Shape(*{t2}.shape).a
{int} = Box({t}.shape).half
{int} = Box({t}.shape).last
{int} = Spec({n}, {c}).area()
{int} = dataclasses.replace(Spec(), n={n}).n
{int} = half_of({n})
{int} = torch.Size(({n}, {c})).numel()
{int} = torch.Size([{n}, {p}])[0]
{int} = np.prod({t}.shape)
{int} = int(np.prod({t}.shape))
{int} = np.int64({n}) + 1
{int} = {t}.stride(0)
{int} = {t}.stride()[-2]
{int} = {t}.nbytes
{int} = {t}.untyped_storage().nbytes() // 4
{int} = len({t}.tolist())
{int} = {t}.storage_offset()
{int} = {t}.dim()
{int} = len(f"{{{t}.shape}}")
{int} = len(str({n}))
{int} = int(f"{{{n}}}")
{int} = int("%d" % {n})
{int} = len(range({n}))
{int} = len(range(0, {n}, {c}))
{int} = len([0] * {p})
{int} = sum(range({n}))
{int} = sum(d > 3 for d in {t}.shape)
{int} = sum(1 for d in {t}.shape if d % 2)
{int} = (lambda m: m + {c})({n})
{int} = (lambda m={n}: m * 2)()
{int} = [{n}, {n}, {n}][{c} % 3]
{int} = [{n}, {n}].pop()
{int} = max([{n}, {n}, 3])
{int} = min(map(int, {t}.shape))
{int} = int({n} if {cond} else {n})
{int} = {n} or {c}
{int} = {n} and {n}
{int} = +{n}
{int} = ~{n}
{int} = int(TABLE[{n} % 5])
{int} = ({n}).__add__({c})
{int} = pow({n}, 2)
{int} = pow({n}, 2, {c} + 4)
{int} = operator.index({n})
{int} = int(np.sqrt({n}))
{int} = int(math.log2({p}) + 1)
{int} = {n} if {n} > {c} else {c}
{int} = torch.tensor({n}).item()
{int} = torch.arange({n}).numel()
{int} = torch.zeros({n}, 2).shape[0]
{int} = torch.tensor({t}.shape).max().item()
{int} = {t}.argmax().item() % {zl}
{int} = ({t} > 0).sum().item()
{int} = int({t}.abs().sum().item()) % 4 + 1
{int} = {i}.flatten()[0].item() + {c}
{int} = {i}.max().item() % {n}
{int} = math.gcd({n}, {c})
{int} = math.comb({p}, 2)
{int} = math.isqrt({p} * {p})
{int} = math.floor({f})
{int} = math.ceil({n} / {c}) * {c}
{int} = round({n} * 0.75)
{int} = bool({n})
{int} = {n} > {c}
{int} = {n} is not None
{int} = isinstance({t}.shape, tuple) + 1
{int} = {t}.shape[0] if {t}.dim() > 1 else {c}
{int} = {t}.ndim * {n}"""

STATE = """\
CFG.n = {n}
CFG.n = {z0};;{new} = {t} * CFG.n
{t} * CFG.n
{t} * CFG.k
{t}[..., : CFG.k]
{t} + CFG.k
{t}[: CFG.n]
{int} = CFG.k
{int} = CFG.n
{int} = CFG.k + {z0}
{int} = GK
{int} = GK * {n}
{t} * GK
{t} / TABLE[{n} % 5]
{t} * TABLE[{n} % 3]
{t} * NAMED.get({n}, 1.5)
{t} * (NAMED[{n}] if {n} in NAMED else 2.0)
CFG.sizes[{n}] = 1
CFG.sizes["n"] = {n}
CFG.sizes[{t}.shape] = {f};;{new} = {T} * CFG.sizes[{T}.shape]
CFG.seen.append({n})
CFG.seen.append(tuple({t}.shape))
CFG.last = {t}.detach()
{y} = {t};;if CFG.last is not None and CFG.last.shape == {T}.shape:;;    {keep}
{y} = {t} + (0 if CFG.last is None else CFG.last.shape[0]);;CFG.last = {T}.detach()
setattr(CFG, "n", {n})
CFG.shape = {t}.shape;;{new} = {T} * CFG.shape[-1]
CFG.text = f"{{{t}.shape}}"
CFG.text = str({n})
global GK;;GK = {n}
def inner(v):;;    return v * {n};;{new} = inner({t})
{int} = {n};;def inner(v):;;    return v * {N};;{new} = inner({t})
{int} = {n};;inner = lambda v: v[..., : {N}];;{new} = inner({t})
{int} = {n};;inner = functools.partial(torch.mul, {N});;{new} = inner({t})
{int} = {n};;inner = lambda v, m={N}: v + m;;{new} = inner({t})
{new} = list(map(lambda d: {t} * d, {T}.shape))[-1]
{new} = {t} * {f};;CFG.n += 1
CFG.n = max(CFG.n, {n});;{new} = {t} * CFG.n
CFG.n = CFG.n + {n};;{new} = {t} * CFG.n
{int} = CFG.n;;CFG.n = {n}
if not hasattr(CFG, "cache") or CFG.cache.shape[0] < {z0}:;;    CFG.cache = torch.arange({z0}).to(DT);;{new} = {t} * CFG.cache[: {z0}].sum()
box = Box({t}.shape);;{new} = {T} * box.first / box.last
box = Spec(n={n});;box.m = {n};;{new} = {t} + box.area()
rows = [{n}, {c}];;rows[1] = {n};;{new} = {t} * rows[1]
names = dict(a={n});;names["b"] = names["a"] + 1;;{new} = {t} * names["b"]
{new} = {t} * float(f"{{{n}}}")
{new} = {t} * len(f"{{{n}}}")
{new} = {t} + hash({n})
{new} = {t} * {n}.real
{new} = {t} + id({n}) * 0
{new} = {t} * sum(i for i in range({n}))"""

INNER_STEP = """\
loss = ({t} * {T}).mean();;loss.backward();;with torch.no_grad():;;    for p in PARAMS:;;        if p.grad is not None:;;            p -= 0.1 * p.grad;;            p.grad = None;;{new} = loss.detach()
loss = {t}.sum() / {z0};;OPT.zero_grad();;loss.backward();;OPT.step();;{new} = loss.detach()
loss = {t}.square().sum() / {T}.numel();;loss.backward();;{new} = loss.detach()
grads = torch.autograd.grad({t}.square().mean(), PARAMS, allow_unused=True);;{new} = sum(g.sum() for g in grads if g is not None)"""
