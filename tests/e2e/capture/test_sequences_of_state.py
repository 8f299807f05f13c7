"""What is captured anew and what is served: containers, state and effects.

A line is a program, its calls, and what happens at each: sequences_of_calls.py
tells more.
"""

import pytest
from e2e.capture.sequences_of_calls import check_sequence, sequences

SEQUENCES = """\
containers
items: items[0] + items[1] | [X, Y] | [X, Y] | (X, Y) | [Y, X] | [X, Y, X] => \
chchc
items: items[0] | [X] | [X] | [Y] => chh
items: items[0] + 1 | [X, 1] | [X, 1] | [X, 2] => chc
items: items["a"] + 1 | {"a": X} | {"a": X} | {"a": Y, "b": 1} | {"b": 1, \
"a": Y} => chcc
items: items[1000] + items[1000] | {1000: X} | {1000: X} | {1000: Y} | {1000: \
X, 1: X} => chhc
items: items["a"]["b"][0] + 1 | {"a": {"b": [X]}} | {"a": {"b": [X]}} | {"a": \
{"b": (X,)}} => chc
items: [v + 1 for v in items.values()] | {"a": X} | {"a": X} | {"b": X} | \
{"a": X, "b": X} => chcc
items: {k: v * 2 for k, v in items.items()} | {"a": X} | {"a": X} | {"b": X} \
=> chc
items: items.get("a", SCALE) + 1 | {} | {} | {"a": X} | {} => chch
items: [a + 1 for a in items] | [X, Y] | [X, Y] | [X] | [X, Y] => chch
items: sum(items) | [X, Y] | [X, Y] | (X, Y) => chc
items: items[::-1] | [X, Y] | [X, Y] | [X, Y, X] => chc
items: (items, items) | [X] | [X] | [Y] => chh
items: [items[0], items[0] + 1] | [X] | [X] => ch
items: items + [SCALE] | [X] | [X] | [X, Y] => chc
items: "a" in items | {"a": 1} | {"a": 1} | {"b": 1} | {"a": 1} => chch
items: len(items) | [X] | [X] | [X, X] => chc
items: sorted(items)[0] + SCALE | [2, 1] | [2, 1] | [1, 3] => chc
items: dict(items, b=SCALE) | {"a": X} | {"a": X} | {"a": Y} => chh
items: set(items) == {1, 2} and SCALE + 1 | [1, 2] | [1, 2] | [2, 1] | [1, 3] \
=> chcc
items: items.left + items.right | Pair(X, Y) | Pair(X, Y) | Pair(Y, X) | \
Pair(X, 1) => chhc
items: items._replace(left=items.left + 1) | Pair(X, 1) | Pair(X, 1) | \
Pair(X, 2) => chc
items: items[0] is items[1] and items[0] + 1 | [X, X] | [X, X] | [X, Y] | [Y, \
Y] => chch
items: list(zip(items, items[1:])) | [X, Y] | [X, Y] => ch
items: [i * a for i, a in enumerate(items)] | [X, Y] | [X, Y] | [X, Y, X] => \
chc
items: collections.deque(items, maxlen=1)[0] + 1 | [X, Y] | [X, Y] | [Y] => \
chc
items: items.scale * SCALE + items.shift | Options() | Options() | \
Options(3.0) | Options(2.0, 5) => chcc
items: dataclasses.replace(items, shift=SCALE + 1) | Options() | Options() | \
Options(3.0) => chc
items: max(items, key=len)[0] + 1 | [[X], [X, Y]] | [[X], [X, Y]] | [[X, Y], \
[X]] => chc
items: items[KIND.name] + 1 | {"ADD": X} | {"ADD": X} | ! KIND = Kind.MUL | \
{"MUL": X} | {"MUL": X} => chch
items: SCALE * TABLE["a"] | 1 | 1 | ! TABLE["a"] = 3 | 1 | 1 | ! TABLE["b"] = \
9 | 1 => chchh
items: SCALE * len(LIST) | 1 | 1 | ! LIST.append(3) | 1 | ! LIST.pop() | 1 => \
chch
changes of containers
write_list | [X] | [X] | [Y] | [X, Y] => chhc
write_dict | {"a": X}, "b" | {"a": X}, "b" | {"a": Y}, "b" | {"a": X}, "c" => \
chhc
swap | [X, Y] | [X, Y] | [Y, X] => chh
items: items.append(items[0] + 1) | [X] | [X] | [Y] => chh
items: items.pop() + 1 | [X, Y] | [X, Y] | [Y] => chc
items: items.update(b=items["a"] + 1) | {"a": X} | {"a": X} => ch
items: items.setdefault("a", SCALE) + 1 | {} | {} | {"a": X} => chc
grow | X | X | X | X => chhh
changes of arguments
items: items.reverse() | [X, Y] | [X, Y] => ch
items: items.append(items.pop(0)) | [X, X] | [X, X] => ch
items: items.append(items.pop(0)) | [X, Y] | [X, Y] => ch
items: items.__setitem__(0, items[0] + 1) | [X] | [X] => ch
items: items.update(a=items["b"], b=items["a"]) | {"a": X, "b": Y} | {"a": X, \
"b": Y} => ch
items: items.clear() or items.extend([SCALE, SCALE + 1]) | [X, Y] | [X, Y] => \
ch
items: items["c"].__setitem__(0, items["c"][1]) | {"c": [X, Y]} | {"c": [X, \
Y]} => ch
p: setattr(p, "scale", p.scale + 1) | Options(X) | Options(X) => ch
p: setattr(p, "x", Y) | Point(X) | Point(X) | Point(X) => cch
a, items: items.__setitem__(0, a) or a + 1 | X, [X] | X, [X] | X, [Y] => chc
changes of arguments, one object or two
a, items: LIST.append(1) or a + len(items) | X, [1, 2] | X, [1, 2] | X, LIST \
=> chc
a, items: items.append(a) or a + len(LIST) | X, [1, 2] | X, [1, 2] | X, LIST \
| X, [1, 2] => chcc
items, more: items.append(SCALE) or len(more) + SCALE | [X], [X] | [X], [X] | \
LIST, LIST => chc
items: items.pop("a") + 1 | {"a": X, "b": Y} | {"a": X, "b": Y} => ch
items: items.__setitem__("a", items.pop("a")) | {"a": X, "b": Y} | {"a": X, \
"b": Y} => ch
items: items.setdefault("c", []).append(SCALE * 2) | {"a": X} | {"a": X} | \
{"a": Y} => chh
items: items.append([items[0], {"k": items[0] * 2}]) | [X] | [X] | [Y] => chh
items: (items.append(items[0] * 2), items[-1] + 1)[1] | [X] | [X] | [Y] => \
chh
items: (items["a"].add_(1), items.update(b=items["a"]), items)[2] | {"a": X} \
| {"a": X} => ch
items: items.move_to_end("a") | collections.OrderedDict(a=X, b=Y) | \
collections.OrderedDict(a=X, b=Y) => ch
items: items.insert(0, 0.5) or items[0] * SCALE | [0.25] | [0.25] | [0.75] | \
[0.85] => chch
items: items.update({3}) or SCALE + len(items) | {1, 2} | {1, 2} => ee
p: setattr(p, "new", SCALE * 3) | Options(1) | Options(1) => ch
p: delattr(p, "scale") | Options(1) | Options(1) => ch
p: setattr(p, "scale", p.scale + 1) | Options(X) | Options(Y) | Options(1) => \
chc
aliases
a: ALIAS.x.add_(1) + ALIAS.y | X | X | ! ALIAS.y = ALIAS.x | X | X => chch
a: ALIAS.x.add_(1) + ALIAS.y | X | X | ! ALIAS.y = ALIAS.x[:] | X | X => chch
a: ALIAS.x.add_(1) + ALIAS.y | X | X | ! ALIAS.y = ALIAS.x.view(2, \
2).t().reshape(-1) | X | X => chch
a: ALIAS.x.add_(a[0]) + a | X | X | ! ALIAS.x = X[0] | X | X => chch
a: PAIRS[0].mul_(2) + PAIRS[1] | X | X | ! PAIRS[1] = PAIRS[0] | X | X => \
chch
a, b: a.add_(1) + b | X, Y | X, Y | X, X | X, X | X, X[:] | X, X[:] => chchch
a, b: a[:2].add_(1).sum() + b[1:] | X, Y | X, X | X, X => cch
a, items: a.add_(1) + items[0] | X, [Y] | X, [Y] | X, [X] | X, [X] => chch
a: NET.layer.weight.add_(1) + NET.layer.bias | X | X | ! NET.layer.bias = \
nn.Parameter(NET.layer.weight.data[0]) | X | X => chch
effects
a: LOG.append(float(a.sum())) or a + 1 | X | X | Y => chh
a: LOG.append(a.shape) or a + 1 | X | X | SMALL => chc
a: LOG.append(time.time() > 0) or a + 1 | X | X => ch
a: logging.getLogger("m").setLevel(10) or a + 1 | X | X => ch
a: logging.getLogger("m").debug("x") or a + 1 | X | X => ch
a: a + numpy.random.rand() * 0 | X | X => ch
a: a + random.randint(1, 6) | X | X | X => chh
a: a + torch.rand(4) | X | X | X => chh
a: a + torch.randn_like(a) | X | X | X => chh
a: torch.nn.functional.dropout(a, 0.5) | X | X | X => chh
a: a + next(COUNT) | X | X | X => epp
a: (TALLY.update(["x"]), a + TALLY["x"])[1] | X | X | X => eee
a: a + len(os.environ.get("MICA_NOPE", "")) | X | X | ! \
os.environ["MICA_NOPE"] = "abc" | X | ! os.environ.pop("MICA_NOPE", 0) | X => \
chch
a: a + os.path.exists("none") | X | X => ep
a: a + time.monotonic() * 0 | X | X => ch
a: a + hash("x") * 0 + hash((1, 2)) % 3 | X | X => ch
a: a + id(a) * 0 | X | X => ep
a: a + uuid.uuid4().int * 0 | X | X => ep
a: a + torch.initial_seed() * 0 | X | X => ch
a: a + torch.get_num_threads() | X | X => ch
a: (torch.set_grad_enabled(False), a + 1)[1] | X | X => ch
a: a + (torch.get_default_dtype() == torch.float32) | X | X | ! \
torch.set_default_dtype(torch.float64) | X | ! \
torch.set_default_dtype(torch.float32) | X => chch
a: gc.collect() * 0 + a | X | X => ep
a: sys.getrefcount(a) * 0 + a | X | X => ep
a: threading.current_thread().name == "MainThread" and a + 1 | X | X => ch
a: inspect.currentframe().f_lineno * 0 + a | X | X => ep
module state
NET | X | X | ! NET.load_state_dict({k: v + 1 for k, v in \
NET.state_dict().items()}) | X | X => chhh
NET | X | X | ! NET.layer.register_forward_pre_hook(lambda m, i: (i[0] + 1,)) \
| X | X => chch
NET | X | X | ! nn.init.zeros_(NET.layer.weight) | X => chh
NET | X | X | ! NET.forward = lambda a: a * 3 | X | X => chch
NET | X | X | ! Net.forward = lambda self, a: a * 4 | X | X | ! Net.forward = \
OLD_FORWARD | X => chchh
NET | X | X | ! NET.layer.weight.data = torch.ones(4, 4) | X => chh
NET | X | X | ! NET.layer.weight = nn.Parameter(torch.ones(4, 4)) | X => chc
NET | X | X | ! del NET.layer.bias; NET.layer.bias = None | X => chc
NET | X | X | ! HOOK = \
torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o + 1) | \
X | X | ! HOOK.remove() | X => chchh
NET | X | X | ! nn.utils.parametrizations.weight_norm(NET.layer) | X | X => \
chch
NET | X | X | ! NET.layer.weight.data.t_() | X | X => chhh
NET | X | X | ! NET.to(torch.float64).to(torch.float32) | X => chh
NET | X | X | ! NET.layer.requires_grad_(True) | X => chh
NET | X | X | ! NET.add_module("extra", nn.ReLU()) | X => chh
NET | X | X | ! NET.layer.__class__ = Shifted | X | X => chch
NET | X | X | ! NET.layer.in_features = 7 | X => chh
NET | X | X | ! NET.register_buffer("seen", torch.ones(4)) | X => chh
BNET | X | X | ! BNET.train() | X | X | X | ! BNET.eval() | X | X => chchhhh
BNET | X | ! BNET[0].momentum = 0.5 | X | ! BNET.train() | X | X | ! \
BNET[0].momentum = None | X | X => ccchcc
BNET | X | X | ! BNET[0].eps = 0.5 | X => chc
BNET | X | X | ! BNET[0] = nn.Identity() | X => chc
BNET | X | X | ! BNET.append(nn.ReLU()) | X => chc
BNET | X | X | ! BNET[0].track_running_stats = False; BNET[0].running_mean = \
None; BNET[0].running_var = None | X => chc
what only the class or C code holds
a: Holder().TABLE["n"] + a | X | X | ! Holder.TABLE["n"] = 4 | X => chc
a: WithMeta.META_TABLE["n"] + a | X | X | ! WithMeta.META_TABLE["n"] = 4 | X \
=> chc
a: vars(rows).get("first") + a | X | X | ! rows.first = 4 | X => chc
a: len(vars(rows)) + a | X | X | ! rows.third = 4 | X => chc
a: PARTIAL.keywords["n"] + a | X | X | ! PARTIAL.keywords["n"] = 4 | X => chc
a: PARTIAL(a) | X | X | ! PARTIAL.keywords["n"] = 4 | X => chc
a: remembered(1)["n"] + a | X | X | ! remembered(1)["n"] = 4 | X => chc
a: kept_all(1)["n"] + a | X | X | ! kept_all(1)["n"] = 4 | X => chc
a: GET("a") + a | X | X | ! TABLE["a"] = 4 | X => chc
a: GET.__self__["a"] + a | X | X | ! TABLE["a"] = 4 | X => chc
a: mutable_default.__annotations__["n"] + a | X | X | ! \
mutable_default.__annotations__["n"] = 4 | X => chc
a: NESTED[0][0]["n"] + a | X | X | ! NESTED[0][0]["n"] = 4 | X => chc
"""


@pytest.mark.parametrize(("program", "steps", "want"), sequences(SEQUENCES))
def test_sequence(program: str, steps: list[str], want: str) -> None:
    check_sequence(program, steps, want)
