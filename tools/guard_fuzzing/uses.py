"""How a number that a program read becomes part of what it computes.

`{q}` is a number, a truth value or a short text; `{e}` is another statement.
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
y = y + torch.arange(3.0)[int({q}) % 3]
y = y + SHARED[int({q}) % 3]
y = y + SHARED[-1 - int({q}) % 3]
SHARED[int({q}) % 3] += 1; y = y + SHARED.sum()
v = int({q}) % 2; y = y + SHARED[v:v + 2].sum()
v = int({q}) % 2; SHARED[v:v + 2] = y.sum(); y = y * SHARED[v]
v = torch.zeros(4, 3); v[int({q}) % 4] = y.sum(); y = y + v[1, int({q}) % 3]
v = int({q}) % 3; extra.append(SHARED[v]); y = y + v
y = y.clone(); y[..., int({q}) % 2] = 2
y = y + torch.ones(3, 2).t()[int({q}) % 2].expand(1, 3)[0, int({q}) % 3]
y = y.clone(); y[..., 0:2] = {q}
y = y.clone(); y[y > 1] = {q}
y = y.clone(); y[..., 0], v = {q}, 1.0
y = y.clone(); v, y[..., -1] = 1.0, {q}
y = y.clone(); y.__setitem__(..., {q})
y = y.clone(); operator.setitem(y, Ellipsis, {q})
y = y.clone(); y.data[..., 0] = {q}
y = y.clone(); y[torch.tensor([0])] = {q}
y = y.clone(); y.flatten()[0] = {q}
y = y.clone(); y.view(-1)[0] = {q}
y = y.clone(); y.detach().view(-1)[:2].fill_({q})
y = y.index_fill(-1, torch.tensor([0]), float({q}))
y = y.scatter(-1, torch.tensor([0]), float({q})) if y.dim() == 1 else y
v = numpy.zeros(3, 'f'); v[0] = {q}; y = y + torch.from_numpy(v)
v = numpy.zeros(3, 'f'); v.flat = {q}; y = y + torch.from_numpy(v)
v = numpy.zeros(3, 'f'); v.fill({q}); y = y + torch.from_numpy(v)
v = numpy.full(3, {q}, 'f'); y = y + torch.tensor(v)
v = torch.zeros(3); v.numpy()[0] = {q}; y = y + v
ARR[0] = {q}; y = y + SHARED
ARR.flat = {q}; y = y + SHARED
SHARED[1] = {q}; y = y + float(ARR[1])
y = y * float(f"{{{q}}}")
y = y * float("%s" % {q})
y = y + len(f"{{{q}!r:>4}}")
y = y * math.sqrt(abs({q}))
y = y + math.fsum([{q}, 1.0])
y = y * math.prod([{q}, 2.0])
y = y + sorted([{q}, 1.5, 2.5])[0]
y = y * max([{q}, 1.5], key=lambda k: -k)
y = y + sum(map(float, [{q}, 1]))
y = y + sum(filter(None, [{q}, 9.0]))
y = y * functools.reduce(operator.mul, [{q}, 2.0])
y = y * list(itertools.accumulate([{q}, 2.0]))[-1]
y = y + dict(zip('ab', [{q}, 1.0]))['a']
y = y * (v := {q}) + v
y = y * [k for k in ({q}, 2.0) if k][0]
y = y * types.SimpleNamespace(k={q}).k
y = y * copy.deepcopy([{q}])[0]
y = y * dataclasses.replace(Config(), k={q}).k
y = y * A({q}).scale(2.0)
y = y * Slotted({q}).k
y = y * Pair({q}, 1.0)._replace(gain=2.0).k
y = y * {{{q}: 2.0}}.get(2.0, 1.0)
y = y * len({{{q}, 2.0}})
y = y * collections.deque([{q}], maxlen=2)[0]
y = y * next(iter([{q}]))
y = y + [*range(int({q}) % 4), 1][0]
y = y + torch.linspace(0.0, float({q}), 3)
y = y + torch.eye(3)[int({q}) % 3]
y = y + torch.arange(float(abs({q})) % 3 + 1)[0]
y = F.pad(y, (1, 0), value=float({q}))[..., :3]
y = F.threshold(y, float({q}), 0.0)
y = F.dropout(y, 0.5 if {q} else 0.0)
y = F.elu(y, alpha={q})
y = F.leaky_relu_(y.clone(), {q})
y = torch.addcmul(y, y, y, value={q})
y = y.sub(1.0, alpha={q})
y = y.pow({q})
y = torch.pow({q}, y)
y = {q} - y
y = {q} / (y + 2)
y = torch.scalar_tensor({q}) + y
y = torch.tensor([[{q}, 1.0], [2.0, 3.0]])[0].sum() + y
y = torch.Tensor([{q}]) + y
y = torch.as_tensor([{q}, 1.0]).sum() + y
y = torch.tensor(numpy.float64({q})) * y
y = y.repeat(1 + int({q}) % 2)[:3] if y.dim() == 1 else y
y = y.narrow(-1, int({q}) % 2, 1) + y
y = torch.where(torch.tensor(bool({q})), y, -y)
y = torch.maximum(y, torch.tensor(float({q})))
y = y.clone().clamp_(min={q})
y = y + (0.5).__mul__({q})
y = y + complex({q}, 1.0).real
y = (y * complex({q}, 1.0)).real
y *= {q}
y = y.requires_grad_() if {q} and y.is_leaf and y.is_floating_point() else y
y = torch.dot(y.flatten()[:1], torch.tensor([float({q})])) + y
y = y.to(torch.float64 if {q} else torch.float32)
y = torch.quantile(y.detach().float(), abs(float({q})) % 1) + y
y = y.index_select(-1, torch.tensor([int({q}) % 2]))
y = y + M[int({q}) % 3, :].sum()
y = y.sum(-1, keepdim=bool({q}))
y = y.std(correction=int({q}) % 2) + y
y = torch.nn.Threshold({q}, 1.0)(y)
y = nn.Dropout(0.5).train(bool({q}))(y)
y = y * float(numpy.sqrt(numpy.float64({q})))
y = y + float(numpy.float32(1.0) / numpy.float32({q}))
y = y * (lambda *a, **k: k['k'])(1.0, k={q})
y = y * json.loads(json.dumps({{'k': {q}}}))['k']
y = y * struct.unpack('d', struct.pack('d', {q}))[0]
y = y + len(re.sub('1', 'ab', str({q})))
y = y * Attrs(k={q}).k
y = y * Attrs(k={q})['k']
y = y * operator.call(lambda k: k, {q})
y = y * next((lambda: (yield {q}))())
y = y + sum(k for k, _ in itertools.groupby([{q}, {q}]))
y = y * statistics.mean([{q}, 2.0])
y = torch.func.vmap(lambda v: v * {q})(y)
y = Scaled.apply(y, {q})
y = y.detach().clone().index_put_((torch.tensor([0]),), torch.tensor({q}).to(y))
y = torch.utils.checkpoint.checkpoint(lambda v: v * {q}, y, use_reentrant=False)
y = torch.func.functional_call(LIN, {{'bias': T0 * {q}}}, (y,))
y = torch.func.grad(lambda v: (v * {q}).sum())(y.detach())
y = torch.func.jvp(lambda v: v * {q}, (y.detach(),), (y.detach(),))[1]
y = y + asyncio.run(later({q}))
y = y * dict(k={q}, **{{}}).popitem()[1]
y = torch._foreach_mul([y, y + 1], {q})[1]
y = torch._foreach_add([y], [y], alpha={q})[0]
v = ARR[1:]; v[0] = {q}; y = y + float(ARR[1])
v = numpy.asarray([{q}, 1.0])[:, None].T; y = y + float(v[0, 0])""".splitlines()
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
    "match {o}:\n    case A(k=1.5):\n        {e}\n"
    "    case Config() | B():\n        y = y + 4\n"
    "    case _:\n        y = y * 5",
    "match {l}:\n    case [1.0, *rest]:\n        y = y + len(rest)\n"
    "    case _:\n        {e}",
    "match {d}:\n    case {{'a': 1.0}}:\n        {e}\n"
    "    case {{'b': v}}:\n        y = y + 1",
    "for v in {l}:\n    if v == {q}:\n        break\nelse:\n    {e}",
    "for v, k in enumerate({d}):\n    y = y + v * len(str(k))",
    "try:\n    if {q}:\n        raise KeyError(y)\n    {e}\n"
    "except KeyError as error:\n    y = error.args[0] * 2\n"
    "finally:\n    y = y + 1",
]
