"""Texts that a program makes of numbers, and what becomes of them.

`{q}` is a number, a truth value or a short text; the other words are those of
statements.py.
"""

from __future__ import annotations

# Text of a number.
_TEXTS = """\
f'''{{{q}}}'''
f'''{{{q}:}}'''
f'''{{{q}!r:>8}}'''
f'''{{{q}!s}}|{{{q}!a}}'''
f'''a {{{q}}} b {{y.sum().item():.3f}}'''
f'''{{float({q}):.2f}}'''
f'''{{float({q}):{{int({q}) % 5}}.1f}}'''
f'''{{int({q}):03d}}'''
f'''{{int({q}) % 10}}'''
f'''{{round(float({q}), 1)}}'''
str({q})
repr({q})
format({q})
format(float({q}), ".3e")
"%s" % {q}
"%s-%.1f" % ({q}, float({q}))
"%d%%" % int({q})
"{{}} {{:.1f}}".format({q}, float({q}))
"{{a}}".format(a={q})
"{{0!r:>5}}".format({q})
str({q}) + "x" + str({q})
"".join([str({q}), "-", "z"])
" ".join((str({q}), f'''{{y.sum().item():.1f}}'''))
str({q}).rjust(6).strip() + "!"
str({q}).replace("1", "ab").upper()
f'''{{y.sum().item():>9.2f}}'''.split()[0]
f'''{{y.sum():.2f}}'''
float({q}).__format__(".1f")
float({q}).__repr__()
str(str({q}))
f'''{{str({q}):>6}}'''
""".splitlines()

# What becomes of one.
_USES = """\
extra.append({v})
extra.append({v})
extra.append(({v}, 1.0))
v = {v}; extra.append(v); extra.append(v)
v = {v}; extra.append(v); y = y + len(v)
v = {v}; y = y * 2 if v.startswith("1") else y; extra.append(v)
v = {v}; y = y * (2 if v == "1.0" else 3)
v = {v}; y = y * (2 if v < "1" else 3)
v = {v}; y = y + ("." in v); extra.append(v)
v = {v}; extra.append({{v: 1.0}})
v = {v}; extra.append(list(v))
v = {v}; extra.append(v[-1:])
v = {v}; extra.append([k for k in v])
v = {v}; extra.append(sorted([v, "1"]))
v = {v}; extra.append(max(v, "1"))
v = {v}; extra.append(str([v]))
v = {v}; extra.append(v.partition("."))
v = {v}; extra.append(v.encode())
v = {v}; extra.append(next(iter(v)))
v = {v}; y = y + (1 if v else 2); extra.append(v)
v = {v}; extra.append(v is {v})
v = {v}; v += "x"; extra.append(v)
v = {v}; v *= 2; extra.append(v)
v = {v}; extra.append(A(v).k)
v = {v}; extra.append(types.SimpleNamespace(k=v).k)
v = {v}; extra.append(Pair(v, 1.0))
v = {v}; extra.append((lambda k: k + "y")(v))
v = {v}; extra.append([*[v], 1])
v = {v}; extra.append(dict(k=v))
v = {v}; extra.append(v in ("1.0", "2.0"))
v = {v}; extra.append({{"1.0": 2}}.get(v, 3))
v = {v}; extra.append(getattr(A(1.0), "k" if v else "gain"))
v = {v}; extra.append(re.sub("1", "ab", v))
v = {v}; extra.append(int(v) if v.isdigit() else 0)
{o}.k = {v}
{o}.fresh = {v}
{w} = {v}
{l}.append({v})
{l}.insert(0, {v})
{l}[0] = {v}
{l}.extend([{v}, 1.0])
{d}['a'] = {v}
{d}.setdefault('m', {v})
setattr({o}, 'gain', {v})
print({v}, file={s})
print("fuzz", {v}, y.sum().item(), file={s})
print("fuzz", {v})
LOG.info({v})
LOG.warning("fuzz %s", {v})
TOLD({v})
QUEUE.append({v})
globals()['NEW'] = {v}
v = {v}; extra.append(hash(v) == hash(str(v)))
""".splitlines()

# Of an object that makes its own, of the number that it was just given.
_TEXTS_OF_OBJECTS = """\
str(SAID)
f'''{{SAID}} and {{SAID}}'''
f'''{{SAID!s:>9}}'''
format(SAID)
"%s" % SAID
"%s-%s" % (SAID, 1)
"{{}}".format(SAID)
SAID.__str__()
"".join([str(SAID), str(QUIET)])
repr(QUIET)
str(QUIET)
f'''{{QUIET}}'''
f'''{{QUIET!r}}'''
f'''{{FORMED}}'''
f'''{{FORMED:>4}}'''
str(FORMED)
str([QUIET, 1])
str(Config({q}))
""".splitlines()

# What is printed of one.
_SHOWN = """\
print(SAID, file={s})
print(SAID, QUIET, FORMED)
print("fuzz", SAID, {q}, sep="-", end="", file={s})
print(*[SAID, 1.0])
print(SAID, y.sum().item()); SAID.k += 1
print([QUIET], QUIET, file={s})
LOG.info("fuzz %s", SAID)
LOG.info(SAID)
LOG.warning(f"fuzz {{QUIET}}")
print(Config({q}))
""".splitlines()

_USES.append(
    "try:\n    raise ValueError({v})\n"
    "except ValueError as error:\n    extra.append(str(error))"
)

# What a dict holds as a whole, after an item of it was set.
_SETS_ITEM = """\
{d}['a'] = {q}
{d}['a'] = y.sum().item()
{d}['new'] = {q}
{d}.update(a={q}, new=1.0)
{d}['a'] = {d}['a'] + 1
{d}['a'] = {d}.pop('b', {q})
{d}.setdefault('m', {q})
pass
""".splitlines()
_READS_ITEMS = """\
extra.append(dict({d}))
extra.append({d}.copy())
extra.append([*{d}])
extra.append(list({d}.items()))
extra.append({{**{d}, "z": 1}})
extra.append({{k: v for k, v in {d}.items() if k != "b"}})
extra.append(", ".join(f"{{k}}: {{v}}" for k, v in {d}.items()))
extra.append((lambda **named: list(named))(**{d}))
extra.append("{{a}}".format(**{d}))
extra.append({d} | {{"q": 1}})
extra.append({d} == {{"a": 1.0}})
extra.append({{}}.update({d}))
extra.append([v for v in {d}.values() if v is {d}.get("a")])
extra.append(list({d}).index("a"))
extra.append(str(list({d})))
v = [v for v in {d}.values() if isinstance(v, float)]; y = y * sum(v)
v = sum(v for v in {d}.values() if isinstance(v, float)); y = y + v
v = max((1.0 * (k == "a") for k in {d}), default=2.0); y = y + v
v = any(isinstance(v, float) and v > 1 for v in {d}.values()); y = y + v
v = min([(k, 1) for k in {d}] or [(1, 1)]); extra.append(v)
v = max([1.0, {q}, y.sum().item()], key=lambda k: -float(k)); extra.append(v)
v = sum((y.sum().item() * k for k in (1.0, 2.0)), 1.0); y = y + v
extra.append(dict(a={q}, b=y.sum().item()))
extra.append(dict({d}, a={q}))
extra.append(copy.deepcopy({d}))
extra.append(copy.copy({d}))
extra.append(dict(zip({d}, {d}.values())))
extra.append(dict((k, v) for k, v in {d}.items()))
extra.append(dict([("a", {q}), ("b", y.sum().item())]))
v = copy.deepcopy({o}); extra.append(vars(v))
v = copy.copy({o}); extra.append(v.k)
extra.append(dataclasses.asdict(Config({q})))
extra.append(copy.deepcopy([{q}, {d}, {d}]))
for k, v in {d}.items(): extra.append((k, v))
for k in {d}: extra.append({d}[k])
""".splitlines()

_SETS = ("SAID.k", "QUIET.k", "SAID.k = QUIET.k = FORMED.k", "SAID.name")

# Statements.
TEXTS = [use.replace("{v}", text) for use in _USES for text in _TEXTS]
TEXTS += [
    f"{place} = {{q}}; " + text
    for place in _SETS
    for text in _SHOWN
    + [f"v = {text}; extra.append(v)" for text in _TEXTS_OF_OBJECTS]
]
TEXTS += [f"{change}\n{read}" for change in _SETS_ITEM for read in _READS_ITEMS]
TEXTS += [
    "SAID.k = QUIET.k = FORMED.k = {q}\n" + use.replace("{v}", text)
    for use in _USES
    for text in _TEXTS_OF_OBJECTS
]
