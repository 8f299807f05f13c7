# ruff: noqa: E501
"""Templates of loops over sizes. See templates.py."""

from __future__ import annotations

LOOPS = """\
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = torch.tanh({y} + {T}[i])
{y} = {t}.mean(0);;for i in range(len({T})):;;    {y} = torch.tanh({y} * 0.5 + {T}[i]);;    {y} = {y} - {T}[-1 - i] * 0.25
{new} = {t}[0];;o = [];;for i in range({T}.size(0)):;;    h = torch.sin({T}[i]) if not i else torch.sin(h + {T}[i]);;    o.append(h);;{Y} = torch.stack(o)
h = None;;o = [];;for i in range({t}.size(0)):;;    h = {T}[i] if h is None else torch.tanh(h + {T}[i]);;    o.append(h);;{new} = torch.stack(o)
o = [];;for row in {t}:;;    o.append(row * 2 + 1);;{new} = torch.stack(o, 0)
o = [];;for i, row in enumerate({t}):;;    o.append(row * i + 1);;{new} = torch.stack(o)
o = [];;for a, b in zip({t}, torch.flip({T}, (0,))):;;    o.append(a - b * 0.5);;{new} = torch.stack(o)
o = [];;for i, (a, b) in enumerate(zip({t}, {T} * 0.5)):;;    o.append(a + b * i);;{new} = torch.stack(o)
o = [];;for row in reversed({t}.unbind(0)):;;    o.append(row.cos());;{new} = torch.stack(o[::-1])
o = [];;for i in range({t}.shape[0] - 1, -1, -1):;;    o.append({T}[i] * 2);;o.reverse();;{new} = torch.stack(o)
o = [];;for i in range(1, {t}.shape[0]):;;    o.append({T}[i] - {T}[i - 1]);;{new} = torch.stack(o)
o = [];;for i in range(0, {t}.shape[0], 2):;;    o.append({T}[i].sin());;{new} = torch.stack(o)
o = [];;for i in range({t}.shape[0] - 1):;;    o.append({T}[i] * {T}[i + 1]);;{new} = torch.cat(o)
o = [{t}[0]];;for i in range({T}.shape[0]):;;    o.append(torch.tanh(o[i] + {T}[i]));;{new} = torch.stack(o)
o = [{t}[0]];;for i in range({T}.shape[0]):;;    o.append(torch.tanh(o[-1] + {T}[i]));;{new} = torch.stack(o[1:])
o = [{t}[0], {T}[1]];;for i in range(2, {T}.shape[0]):;;    o.append(o[-1] * 0.5 + o[-2] * 0.25 + {T}[i]);;{new} = torch.stack(o)
o = [];;for i in range({t}.shape[0]):;;    o.append({T}[i]);;{new} = torch.stack(o) * len(o)
o = [];;for i in range({t}.shape[0]):;;    o.append({T}[i].exp());;{new} = o[0] + o[-1]
o = [];;for i in range({t}.shape[0]):;;    o.append({T}[i].exp());;{new} = sum(o)
o = [];;for i in range({t}.shape[0]):;;    o.append({T}[i].exp());;q = [];;for one in o:;;    q.append(one * 2);;{new} = torch.stack(q)
o = [];;for i in range({t}.shape[0]):;;    o.append({T}[i].exp());;q = [];;for i in range({T}.shape[0]):;;    q.append(o[i] * i);;{new} = torch.stack(q)
o = [];;for i in range({t}.shape[0]):;;    o.append({T}[i].exp());;q = [];;for one in reversed(o):;;    q.append(one * 2);;{new} = torch.stack(q)
o = [];;for i in range({t}.shape[0]):;;    if i % 2:;;        o.append({T}[i]);;{new} = torch.stack(o)
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    if i > {c}:;;        {y} = {y} * 2;;    {y} = {y} + {T}[i]
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[i] * (i + 1)
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[i] / ({T}.shape[0] - i)
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[i % 2]
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[min(i, {c})]
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[i // 2] * 0.5
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233][i]
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} * 0.5 + (3 if i == {T}.shape[0] - 1 else 1)
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} * 0.5 + (3 if i == 0 else 1)
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[i];;    if i == {c}:;;        break
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    if i == {c}:;;        continue;;    {y} = {y} + {T}[i]
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[i];;else:;;    {y} = {y} * 2
{y} = {t}.sum(0);;k = 0;;for i in range({T}.shape[0]):;;    k += 1;;    {y} = {y} + {T}[i] * k
{y} = {t}.sum(0);;k = 1.0;;for i in range({T}.shape[0]):;;    k *= 0.5;;    {y} = {y} + {T}[i] * k
{y} = {t}.sum(0);;k = True;;for i in range({T}.shape[0]):;;    k = not k;;    {y} = {y} + {T}[i] * k
{y} = {t}.sum(0);;k = {T}.shape[0];;for i in range({T}.shape[0]):;;    k -= 1;;    {y} = {y} + {T}[k]
{y} = {t}.sum(0);;d = dict();;for i in range({T}.shape[0]):;;    d['h'] = d.get('h', {y}) + {T}[i];;{y} = d['h']
{y} = {t}.sum(0);;d = dict(h={y});;for i in range({T}.shape[0]):;;    d['h'] = torch.tanh(d['h'] + {T}[i]);;{y} = d['h']
{y} = {t}.sum(0);;d = dict();;for i in range({T}.shape[0]):;;    d[i] = {T}[i];;{y} = {y} + d[0] * len(d)
s = ({t}[0], {T}[1]);;for i in range({T}.shape[0]):;;    s = (s[1], torch.tanh(s[0] + {T}[i]));;{new} = s[0] - s[1]
s = [{t}[0], {T}[1]];;for i in range({T}.shape[0]):;;    s[i % 2] = torch.tanh(s[0] + {T}[i]);;{new} = s[0] - s[1]
s = [{t}[0] * 0] * 3;;for i in range({T}.shape[0]):;;    for k in range(3):;;        s[k] = torch.tanh(s[k] + {T}[i] * (k + 1));;{new} = torch.stack(s)
s = [{t}[0]] * {T}.shape[0];;for i in range({T}.shape[0]):;;    s[i] = s[i] + {T}[i];;{new} = torch.stack(s)
{new} = torch.zeros_like({t});;for i in range({T}.shape[0]):;;    {Y}[i] = {T}[i] * 2
{new} = torch.zeros_like({t});;for i in range({T}.shape[0]):;;    {Y}[{T}.shape[0] - 1 - i] = {T}[i] + {Y}[i]
{new} = torch.zeros_like({t});;for i in range({T}.shape[0]):;;    {Y}[: i + 1] += {T}[i]
{new} = {t}.clone();;for i in range(1, {T}.shape[0]):;;    {Y}[i] += {Y}[i - 1]
{new} = {t}.clone();;for i in range({T}.shape[0]):;;    {Y}[i].mul_(2).add_(i)
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y}.add_({T}[i])
{new} = torch.stack([{t}[i] * 2 for i in range({T}.shape[0])])
{new} = torch.stack([row.relu() for row in {t}])
{new} = torch.stack([row * i for i, row in enumerate({t})])
{new} = torch.stack([{t}[i] for i in range({T}.shape[0]) if i % 3 != 1])
{new} = torch.stack([{t}[i] + {T}[j] for i in range({T}.shape[0]) for j in range(2)])
{new} = torch.stack([{t}[i] + {T}[j] for i in range({T}.shape[0]) for j in range({T}.shape[0])])
{new} = torch.stack(list({t}[i] + 1 for i in range({T}.shape[0])))
{new} = torch.stack(list(map(lambda r: r * 2, {t})))
{new} = torch.stack([a @ b for a, b in zip({t2}, {T})])
f = lambda r, k=2: r * k;;{new} = torch.stack([f({t}[i]) for i in range({T}.shape[0])])
{new} = torch.cat([p.mean(0, keepdim=True) for p in {t}.split(1)])
{new} = torch.cat([p.mean(0, keepdim=True) for p in {t}.split(2)])
{new} = torch.cat([p.mean(0, keepdim=True) for p in {t}.chunk({T}.shape[0])])
p = {t}.split(1);;o = [];;for i, h in enumerate(({T} * 2).split(1)):;;    o.append(h - p[i]);;{new} = torch.cat(o)
p = {t}.unbind(0);;o = [];;for i in range({T}.shape[0]):;;    o.append(p[i] + p[0]);;{new} = torch.stack(o)
p = {t}.unbind(0);;o = [];;for i in range({T}.shape[0]):;;    o.append(p[i] + p[-1]);;{new} = torch.stack(o)
p = {t}.unbind(0);;o = [];;for i in range(len(p)):;;    o.append(p[i] * 3);;{new} = torch.stack(o)
p = {t}.unbind(0);;{new} = torch.stack(p) + p[1]
it = iter({t});;{y} = next(it).clone();;for row in it:;;    {y} = {y} + row
it = iter(range(100));;{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[i] * next(it)
g = ({t}[i] for i in range({T}.shape[0]));;{y} = {T}.sum(0);;for row in g:;;    {y} = {y} + row
{y} = {t}.sum(0);;i = 0;;while i < {T}.shape[0]:;;    {y} = {y} + {T}[i];;    i += 1
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    for j in range({T}.dim()):;;        {y} = {y} + {T}[i] * (j + 1)
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[i].shape[0] if {T}.dim() > 1 else {y} + i
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[: i + 1].sum(0)
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = torch.cat([{y}.reshape(-1), {T}[i].reshape(-1)])
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    try:;;        {y} = {y} + [2, 3, 5][i];;    except IndexError:;;        {y} = {y} * 0.5
{y} = {t}.sum(0);;last = 0;;for i in range({T}.shape[0]):;;    {y} = {y} + last;;    last = i
{y} = {t}.sum(0);;seen = set();;for i in range({T}.shape[0]):;;    seen.add(i % 3);;    {y} = {y} + len(seen)
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} + {T}[i] * float(f"{{i}}")
class N:;;    k = 0;;n = N();;{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    n.k += 1;;    {y} = {y} + n.k
class N:;;    pass;;n = N();;n.h = {t}.sum(0);;for i in range({T}.shape[0]):;;    n.h = torch.tanh(n.h + {T}[i]);;{new} = n.h
a = {t}.sum(0);;b = {T}.mean(0);;for i in range({T}.shape[0]):;;    a, b = b, torch.tanh(a + {T}[i]);;{new} = a - b
first = None;;h = {t}.sum(0);;for i in range({T}.shape[0]):;;    h = torch.tanh(h + {T}[i]);;    first = h if first is None else first;;{new} = first + h
best = {t}[0];;for i in range({T}.shape[0]):;;    best = torch.maximum(best, {T}[i]);;{new} = best
h = torch.zeros({t}.shape[1:]);;o = [];;for i in range({T}.shape[0]):;;    h = torch.where({T}[i] > 0, h + {T}[i], h * 0.5);;    o += [h];;{new} = torch.stack(o)
h = {t}[0];;o = [];;for i in range({T}.shape[0]):;;    h = torch.tanh(h + {T}[i]);;    o = o + [h];;{new} = torch.stack(o)
h = {t}[0];;o = [];;q = [];;for i in range({T}.shape[0]):;;    h = torch.tanh(h + {T}[i]);;    o.append(h);;    q.append(h * 2);;    o.append(h * 3);;{new} = torch.cat([torch.stack(o), torch.stack(q)])
h = {t}[0];;o = [];;for i in range({T}.shape[0]):;;    o.insert(0, {T}[i] * 2);;{new} = torch.stack(o)
def step(h, r):;;    return torch.tanh(h + r), h * 2;;h = {t}[0];;o = [];;for i in range({T}.shape[0]):;;    h, g = step(h, {T}[i]);;    o.append(g);;{new} = torch.stack(o) + h
h = {t2}[0];;for i in range({T}.shape[0]):;;    h = torch.tanh(h + {T}[i]);;for j in range({T}.shape[1]):;;    h = h * 0.5 + {T}[:, j].mean();;{new} = h
{y} = {t2}.sum(0);;for j in range({T}.shape[1]):;;    {y} = {y} + {T}[:, j].sum();;{y} = {y} * j
{y} = {t2}.sum();;for r in {T}:;;    for v in r:;;        {y} = {y} * 0.5 + v
h = {t3}[:, 0];;for i in range({T}.shape[1]):;;    h = torch.tanh(h + {T}[:, i]);;{new} = h
h = {t3}[:, 0];;o = [];;for s in {T}.unbind(1):;;    h = torch.tanh(h + s);;    o.append(h.unsqueeze(1));;{new} = torch.cat(o, 1)
o = [];;for s in {t3}.transpose(0, 1):;;    o.append(torch.softmax(s, -1));;{new} = torch.stack(o, 1)
{new} = torch.cat([{t}.mean(0, keepdim=True)] * {T}.shape[0]) + {T}
{new} = torch.stack([{t}[0]] * {T}.shape[0], 0) * 2
o = [{t}.mean(0)] * {T}.shape[0];;{new} = torch.stack(o) * len(o)
o = [{t}.mean(0)] * {n};;{new} = torch.stack(o)
o = [];;for i in range({t}.shape[0]):;;    o += [{T}[i] * 2, {T}[i]];;{new} = torch.stack(o)
o = [];;for i in range({t}.shape[0]):;;    o.extend([{T}.select(0, i)]);;{new} = torch.stack(o)
o = [];;for i in range({t}.shape[0]):;;    o.append({T}.narrow(0, i, 1) * i);;{new} = torch.cat(o)
o = [];;for i, r in enumerate({t}, 2):;;    o.append(r * i);;{new} = torch.stack(o)
for _ in range(2):;;    o = [];;    for i in range({t}.shape[0]):;;        o.append({T}[i] * 2);;    {new} = torch.stack(o)
{y} = {t}.sum(0);;k = 0;;for row in {T}:;;    {y} = torch.tanh({y} + row);;    k += 1;;{y} = {y} / k
{y} = {t}.sum(0);;k = 1;;for row in {T}:;;    {y} = {y} * 0.5 + row * k;;    k = 2 * k - {c};;{y} = {y} + k
{y} = {t}.sum(0);;a, b = 0, 1;;for row in {T}:;;    {y} = {y} * 0.5 + row / (b + 1);;    a, b = b, a + 1;;{y} = {y} * a
{y} = {t}.sum(0);;k, m = 0, {c};;for row in {T}:;;    k += 2;;    m -= 1;;    {y} = {y} + row * (k - m)
{y} = {t}.sum(0);;i = 0;;while i < len({T}):;;    {y} = torch.tanh({y} + {T}[i]);;    i += 1;;{y} = {y} * i
{y} = {t}.sum(0);;i = 0;;while i < {T}.size(0):;;    {y} = {y} * 0.5 + {T}[i: i + 2].sum(0);;    i += 2
{y} = {t}.sum(0);;i = {T}.shape[0] - 1;;while i >= 0:;;    {y} = torch.tanh({y} + {T}[i]);;    i -= 1
{y} = {t}.sum(0);;i = {T}.shape[0];;while i > 0:;;    i -= 1;;    {y} = torch.tanh({y} * i + {T}[i])
{y} = {t}.sum(0);;i = {T}.shape[0];;while i:;;    i -= 1;;    {y} = torch.tanh({y} + {T}[i])
{y} = {t}.sum(0);;i = 0;;while i != {T}.shape[0]:;;    {y} = {y} * 0.5 + {T}[i] * i;;    i += 1
{y} = {t}.sum(0);;i = 1;;while i <= {T}.shape[0]:;;    {y} = {y} * 0.5 + {T}[i - 1];;    i += 1
{y} = {t}.sum(0);;i, n = 0, {T}.shape[0];;while not i >= n - 1:;;    {y} = {y} * 0.5 + {T}[i + 1] - {T}[i];;    i = i + 1
o, i = [], 0;;while i < {t}.size(0):;;    o.append({T}[i].sin());;    i += 1;;{new} = torch.stack(o)
o, i = [], 0;;while len(o) < {t}.size(0):;;    o.append({T}[i].sin());;    i += 1;;{new} = torch.stack(o)
{y} = {t}.sum(0);;i, k = 0, 0;;while i < {T}.shape[0]:;;    {y} = {y} + {T}[i] * k;;    i += 1;;    k += i;;{y} = {y} + k
{y} = {t}.sum(0);;i = 0;;while i < {T}.shape[0]:;;    {y} = {y} + {T}[i];;    i += 1;;    if i == {c}:;;        break
{y} = {t}.sum(0);;i = 0;;while True:;;    {y} = {y} * 0.5 + {T}[i];;    i += 1;;    if i >= {T}.shape[0]:;;        break
{y} = {t}.sum(0);;i = 0;;while i < {T}.shape[0]:;;    i += 1;;    if i == {c}:;;        continue;;    {y} = {y} * 0.5 + {T}[i - 1]
{y} = {t}.sum(0);;i = 0;;while i < {T}.shape[0]:;;    for j in range(2):;;        {y} = {y} * 0.5 + {T}[i] * j;;    i += 1
{y} = {t2}.sum(0).sum();;i = 0;;while i < {T}.shape[0]:;;    j = 0;;    while j < {T}.shape[1]:;;        {y} = {y} * 0.5 + {T}[i, j];;        j += 1;;    i += 1
{y} = {t2}.sum(0).sum();;i = 0;;while i < {T}.shape[0]:;;    for v in {T}[i]:;;        {y} = {y} * 0.5 + v;;    i += 1
{y} = {t}.sum(0);;n = {T}.shape[0];;while n > 1:;;    {y} = {y} * 0.5 + {T}[n - 1];;    n = (n + 1) // 2
{y} = {t}.sum(0);;i, s = 0, 1;;while i < {T}.shape[0]:;;    {y} = {y} * 0.5 + {T}[i];;    i += s;;    s += 1
o = [];;h = {t}[0];;for i in range({T}.shape[0]):;;    h = torch.tanh(h + {T}[i]);;    o.append(h);;q = [];;g = h;;for one in o:;;    g = torch.tanh(g * 0.5 + one);;    q.append(g);;{new} = torch.stack(q)
o = [];;h = {t}[0];;for i in range({T}.shape[0]):;;    h = torch.tanh(h + {T}[i]);;    o.append(h);;q = [];;g = o[-1];;for i in reversed(range({T}.shape[0])):;;    g = torch.tanh(g * 0.5 + {T}[i]);;    q.append(g);;q.reverse();;{new} = torch.cat([torch.stack(o), torch.stack(q)], -1)
o = [];;h = {t}[0];;for i in range({T}.shape[0] - 1, -1, -1):;;    h = torch.tanh(h + {T}[i]);;    o.insert(0, h);;{new} = torch.stack(o) + o[0]
o = [{t}[0]];;for i in range({T}.shape[0]):;;    o.insert(0, torch.tanh(o[0] + {T}[i]));;{new} = torch.stack(o)
o = [];;h = {t}[0];;for row in {T}:;;    h = torch.tanh(h + row);;    o.append(h);;{new} = torch.stack(o[:-1]) if len(o) > 1 else h
o = [{t}[0], {T}[1]];;for row in {T}:;;    o.append(torch.tanh(o[-1] - o[-2] + row));;{new} = torch.stack(o[2:])
{new} = torch.stack(tuple(row * 2 + 1 for row in {t}))
{y} = sum(row.tanh() for row in {t})
{y} = sum((row.tanh() for row in {t}), {T}[0] * 2)
{y} = sum({T}[i] * i for i in range({t}.shape[0]))
{y} = {t} * sum(i * 2 for i in range({T}.shape[0]))
o = [torch.tanh(v) for v in ({T}[i] + 1 for i in range({t}.shape[0]))];;{new} = torch.stack(o)
def g(x):;;    h = x[0];;    for row in x:;;        h = torch.tanh(h + row);;        yield h;;{new} = torch.stack(list(g({t})))
def g(x):;;    h = x[0];;    for row in x:;;        h = torch.tanh(h + row);;        yield h;;o = [];;for v in g({t}):;;    o.append(v * 2);;{new} = torch.stack(o)
def g(x):;;    h = x[0];;    yield h;;    for row in x:;;        h = torch.tanh(h + row);;        yield h;;    yield h * 2;;o = [];;for v in g({t}):;;    o.append(v * 2);;{new} = torch.stack(o)
def g(x):;;    for i, row in enumerate(x):;;        yield i, row;;{y} = {t}.sum(0);;for i, v in g({T}):;;    {y} = {y} * 0.5 + v * i
def g(x):;;    for row in x:;;        yield row * 2;;def k(x):;;    for v in g(x):;;        yield torch.tanh(v);;{y} = {t}.sum(0);;for v in k({T}):;;    {y} = {y} * 0.5 + v
def g(x):;;    for row in x:;;        yield row * 2;;q = g({t});;{y} = next(q).clone();;for v in q:;;    {y} = {y} * 0.5 + v
def g(x):;;    for row in x:;;        yield row * 2;;q = g({t});;{y} = {T}.sum(0);;for v in q:;;    w = next(q, None);;    {y} = {y} * 0.5 + v;;    if w is not None:;;        {y} = {y} - w
def g(x):;;    for row in x:;;        yield row * 2;;{y} = {t}.sum(0);;k = 0;;for v in g({T}):;;    k += 1;;    {y} = {y} * 0.5 + v * k;;    if k == {c}:;;        break
def g(x):;;    k = 1;;    for row in x:;;        k += 2;;        yield row * k;;{y} = {t}.sum(0);;for v in g({T}):;;    {y} = {y} * 0.5 + v
def g(x):;;    for row in x:;;        yield row * 2;;{y} = {t}.sum(0);;for v, w in zip(g({T}), g({T})):;;    {y} = {y} * 0.5 + v * w
def g(x):;;    for row in x:;;        s = yield row * 2;;        yield row if s is None else s;;{y} = {t}.sum(0);;for v in g({T}):;;    {y} = {y} * 0.5 + v
def g(x):;;    yield from (row * 2 for row in x);;{y} = {t}.sum(0);;for v in g({T}):;;    {y} = {y} * 0.5 + v
def g(x):;;    i = 0;;    while i < x.shape[0]:;;        yield x[i];;        i += 1;;{y} = {t}.sum(0);;for v in g({T}):;;    {y} = {y} * 0.5 + v
def g(x):;;    try:;;        for row in x:;;            yield row * 2;;    finally:;;        b.append(1);;b = [];;{y} = {t}.sum(0);;for v in g({T}):;;    {y} = {y} * 0.5 + v;;{y} = {y} * len(b)
def g(x):;;    for row in x:;;        b[0] = b[0] + row;;        yield b[0] * 2;;b = [{t}[0]];;for v in g({T}):;;    b[0] = torch.tanh(v);;{new} = b[0]
v = tuple(row * 2 for row in {t});;{new} = v[0] - v[-1] if len(v) > {c} else v[0]
v = list(row * 2 for row in {t});;{new} = torch.stack(v[1:]) * len(v)
for i in range({t}.shape[0]):;;    pass;;{y} = {T} * 2
k = 0;;for i in range({t}.shape[0]):;;    k += i * 2;;{y} = {T} + k
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    if i >= {c}:;;        break;;    {y} = {y} * 0.5 + {T}[i]
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    {y} = {y} * 0.5 + {T}[i];;    if i == {c}:;;        break;;else:;;    {y} = {y} * 2;;{y} = {y} + i
{y} = {t}.sum(0);;for i in range({T}.shape[0] - 1, -1, -1):;;    {y} = {y} * 0.5 + {T}[i];;    if i < {c}:;;        break
{y} = {t}.sum(0);;it = iter(range({T}.shape[0]));;for i in it:;;    if i == {c}:;;        break;;for i in it:;;    {y} = {y} * 0.5 + {T}[i]
{y} = {t}.sum(0);;for i in range({T}.shape[0]):;;    for j in range({T}.shape[0]):;;        {y} = {y} * 0.5 + {T}[i] * {T}[j];;        if j >= {c}:;;            break;;    if i >= 2:;;        break
k = 1;;for i in range({t}.shape[0]):;;    k = i;;{y} = {T} + k;;for i in range({T}.shape[0]):;;    k += 1;;{y} = {y} * k
o = {t}[:2];;for row in {T}:;;    o = torch.cat([o, torch.tanh(row[None] + o.mean(0))]);;{new} = o
o = {t}[:1];;for i in range(1, {T}.shape[0]):;;    o = torch.cat([o, torch.tanh({T}[i : i + 1] + o[-1:])]);;{new} = o
o = {t}[:1];;for row in {T}:;;    o = torch.cat([row[None] * o.shape[0], o]);;{new} = o * len(o)
o = {t}[:0];;for row in {T}:;;    o = torch.cat([o, row[None] * 2]);;{new} = o
o = None;;for row in {t}:;;    o = row[None] if o is None else torch.cat([o, row[None] + o.sum(0)], 0);;{new} = o
o = {t}[:1];;for i in range({T}.shape[0]):;;    o = torch.cat([o, o[i : i + 1] * 0.5 + {T}[i : i + 1]]);;{new} = o
o = {t}[:2];;for row in {T}:;;    o = torch.cat([o, o[:1] + row]);;    if o.shape[0] > {c}:;;        o = o[1:];;{new} = o
o = {t}[:2];;for row in {T}:;;    o = torch.cat([o, o])[:40];;{new} = o * 2
o = {t}[:2];;q = {T}[:1];;for row in {T}:;;    o = torch.cat([o, row[None]]);;    q = torch.cat([q, o.mean(0, keepdim=True), row[None]]);;{new} = q
o = {t2}[:, :1];;for j in range(1, {T}.shape[1]):;;    o = torch.cat([o, {T}[:, j : j + 1] + o.sum(1, keepdim=True)], 1);;{new} = o
o = {t}[:2];;for row in {T}:;;    o = torch.cat([o, row[None]]);;    o = o.view(o.shape) if o.dim() > 1 else o.reshape(-1);;{new} = o.flip(0)
o = [];;for i in range(1, {t}.shape[0]):;;    o.append({T}[i] - {T}[i - 1]);;q = [];;h = {t}[0];;for one in reversed(o):;;    h = torch.tanh(h + one);;    q.append(h);;{new} = torch.stack(q)
o = [];;for i in range(2, {t}.shape[0]):;;    o.append({T}[i] * 2);;{y} = {t}.sum(0);;for one in o:;;    {y} = {y} * 0.5 + one
o = [];;for i in range(1, {t}.shape[0]):;;    o.append({T}[i] * 2);;{y} = {t}.sum(0);;for one, row in zip(o, {T}[1:]):;;    {y} = {y} * 0.5 + one * row
o = [];;for row in {t}:;;    o.append(row * 2);;q = [];;for a, b in zip(o[:-1], o[1:]):;;    q.append(a - b);;{new} = torch.stack(q)
{y} = {t}.sum(0);;for a, b in zip({T}[:-1], {T}[1:]):;;    {y} = torch.tanh({y} + a * b)
rows = list({t});;{y} = rows[-1];;for row in rows:;;    {y} = torch.tanh({y} + row)
rows = list({t});;for k in range(2):;;    o, h = [], rows[0] * 0;;    for row in rows:;;        h = torch.tanh(h + row);;        o.append(h);;    rows = o;;{new} = torch.stack(rows)
rows = list({t});;rows[0] = rows[0] * 2;;rows.append(rows[-1]);;{new} = torch.stack(rows)
rows = list({t});;{new} = torch.stack(rows[::-1]) * len(rows)
h = {t2}.sum(0);;o = [];;for row in {T}:;;    h = torch.tanh(h + row);;    o.append(h);;e = torch.stack(o);;g, q = h, [];;for j in range({T}.shape[1]):;;    w = torch.softmax((e * g).sum(-1), 0);;    g = torch.tanh((w[:, None] * e).sum(0) + {T}[:, j].mean());;    q.append(g);;{new} = torch.stack(q)
h = {t2}.sum(0);;i = 0;;while i < {T}.shape[0]:;;    h = torch.tanh(h + {T}[i]);;    i += 1;;j = 0;;while j < {T}.shape[1]:;;    h = h * 0.5 + {T}[:, j].mean();;    j += 1;;{new} = h * (i - j)
{y} = {t}.sum(0);;for row in {T}:;;    {y} = {y} * 0.5 + row;;    if {y}.sum() > {f}:;;        {y} = {y} - 1
{y} = {t}.sum(0);;for row in {T}:;;    {y} = torch.tanh({y} + row);;    if {y}.sum() > {c}:;;        break
p = None;;o = [];;for row in {t}:;;    if p is not None:;;        o.append(row - p);;    p = row;;{new} = torch.stack(o) if o else {T} * 0
p = {t}[0];;o = [];;for row in {T}:;;    o.append(row * 2 - p);;    p = row;;{new} = torch.stack(o)
p = None;;o = [];;for row in reversed({t}.unbind(0)):;;    o.append(row if p is None else row * p);;    p = row;;{new} = torch.stack(o)
p = None;;o = [];;for row in {t}.split(1):;;    o.append(row if p is None else row - p);;    p = row;;{new} = torch.cat(o)
o = [];;{y} = {t}.sum(0);;for row in {T}:;;    {y} = {y} * 0.5 + row;;    o.append(1);;{y} = {y} * (1 + (o == [1] * 4))
o = [];;{y} = {t}.sum(0);;for row in {T}:;;    {y} = {y} * 0.5 + row;;    o.append(None);;{y} = {y} + (tuple(o) < (None,) * 5 if len(o) == 5 else 2)
def g(x):;;    o = [];;    for row in x:;;        o.append(row * 2);;    return o, o[-1];;o, h = g({t});;{new} = torch.stack(o) + h
k = {t}.flatten().argmax() % {T}.shape[0];;{new} = torch.tanh({T}[k]) + {T}[0]
k = {t}.flatten().argmin() % {T}.shape[0];;{y} = {t}.sum(0);;for row in {T}:;;    {y} = {y} * 0.5 + row * {T}[k]"""
