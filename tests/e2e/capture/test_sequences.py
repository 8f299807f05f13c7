"""What is captured anew and what is served: tensors, and what code does.

A line is a program, its calls, and what happens at each: sequences_of_calls.py
tells more.
"""

import pytest
from e2e.capture.sequences_of_calls import check_sequence, sequences

SEQUENCES = """\
tensors
a: a + 1 | X | X | Y | SMALL | X | SMALL => chhchh
a: a + 1 | X | DOUBLE | X | DOUBLE | INTS => cchhc
a: a + 1 | X | FLAT | X | FLAT => cchh
a: a * 2 | X | X[:2] | X[1:] | X[:, :2] => cchc
a, b: a + b | X, X | X, X | X, Y | Y, Y | X, X => chchh
a, b: a + b | X, SCALE | X, SCALE | X, X | X, SMALL[0] => chcc
a: a[1:, :2] | X | X | Y => chh
a: a[..., None, 1] | X | X => ch
a: a[a > 3] | X | X | Y => chc
a: a[[0, 2]] | X | X => ch
a: a[INTS[0] % 3] | X | X => ch
a: a.shape[0] * a | X | X | SMALL | X => chch
a: a.dtype == torch.float32 and a + 1 | X | X | DOUBLE | X => chch
a: a.view(a.size(0), -1) | X | X | SMALL => chc
a: a.numel() + a | X | X | SMALL => chc
a: a.ndim + a | X | X | X[0] | X => chch
a: a.new_zeros(a.shape) + a | X | X | SMALL => chc
a: [row * 2 for row in a] | X | X | SMALL | X => chch
a: [*a] | X | X | Y => chh
a: len(a) + a | X | X | SMALL => chc
a: a.T @ a | X | X | Y => chh
a: a.requires_grad or a + 1 | X | X | Y => chh
a: a.is_contiguous() and a + 1 | X | X | FLAT => chc
a: a.stride(0) + a | X | X | FLAT => chc
a: a + a.sum().item() | X | X | Y | X => chhh
a: a + int(a.sum()) | X | X | Y => chc
a: float(a.max()) * a | X | X | Y => chh
a: a.tolist()[0][0] + a | X | X => ch
a: bool(a.any()) and a + 1 | X | X | Y | X * 0 => chhc
a: torch.cat([a, a]).split(2) | X | X => ch
a: torch.stack(list(a)).chunk(2, 1) | X | X => ch
a: (a > 2).nonzero() | X | X | Y => chc
a: torch.unique(a) + 1 | X | X | Y => chh
a: a.max(1) | X | X | Y => chh
a: a.max(1).values + 1 | X | X => ch
a: a is X and a + 1 | X | X | Y => chc
a: torch.is_tensor(a) and a + 1 | X | X => ch
a: a.device.type == "cpu" and a + 1 | X | X => ch
in place
a: a.add_(1) | X | X | Y => chh
a: a.mul_(2).add_(a) | X | X => ch
a: torch.relu_(a) | X | X => ch
write_item | X, 0 | X, 0 | X, 1 => chc
write_item | X, (slice(None), 1) | X, (slice(None), 1) => ch
write_item | X, X > 3 | X, X > 3 => ch
a, b: a.copy_(b) | X, Y | X, Y | X, DOUBLE => chc
a, b: a.add_(b) is a | X, Y | X, Y | X, X => chc
a: a[0].add_(1) | X | X | Y => chh
a: a.view(-1)[::2].zero_() | X | X => ch
a: a.t_() | X | X | X => eee
a: torch.add(a, 1, out=a) | X | X => ch
a: (a.zero_(), a) | X | X => ch
a: a.clone().fill_(3) | X | X | SMALL => chc
a: a.__iadd__(1) | X | X => ch
a: a.detach().add_(1) is a | X | X => ch
a: SCALE.add_(a.sum()) | X | X | X => chh
a: a.requires_grad_() | X | X => cc
functions
ADD_ONE | X | X | Y => chh
accumulate | X, 1 | X, 1 | X, 1, 2 | X, 1 => chch
accumulate | X, n=2 | X, n=2 | X, m=2 | X, n=2, m=3 => chcc
accumulate | X, Y | X, Y | X, Y, Y | X, X => chcc
accumulate | X, *[1, 2] | X, 1, 2 | X, **{"n": 2} => chc
only_keyword | X | X | X, n=1 | X, n=2 => chcc
mutable_default | X | X | ! mutable_default.__defaults__[0].append(1) | X | X \
=> chch
closure | X, 1 | X, 1 | X, 2 => chc
recursive | X, 3 | X, 3 | X, 2 => chc
generator | X, 2 | X, 2 | X, 3 => chc
nested_calls | X | X | Y => chh
a: make_adder(3)(a) | X | X => ch
a: functools.partial(branch, flag=True)(a) | X | X => ch
a: functools.reduce(operator.add, [a, a, a]) | X | X => ch
a: list(map(ADD_ONE, [a, a])) | X | X => ch
a: list(filter(torch.is_tensor, [a, 1])) | X | X => ch
a: [f(a) for f in (torch.sin, torch.cos)] | X | X => ch
a: list(itertools.chain([a], [a + 1])) | X | X => ch
a: list(itertools.product([a], [1, 2])) | X | X => ch
a: (lambda b=2: a * b)() | X | X => ch
a: branch(a, NUMBER > 1) | X | X | ! NUMBER = 0 | X | ! NUMBER = 3 | X => \
chcc
a: branch(a, True) | X | X | ! branch = lambda a, flag: a - 1 | X | X => chch
a: a + cached(3) | X | X => ec
a, f: f(a) | X, torch.sin | X, torch.sin | X, torch.cos => chc
a, f: f(a) | X, ADD_ONE | X, ADD_ONE | X, make_adder(2) => chc
rebind | X | X | X => chh
classes
p: p.x + p.y | Point(X) | Point(X) | Point(Y) | Point(X, 2) | Point(X) => \
cchch
p: p.twice | Point(X) | Point(X) | Child(X) => ccc
p: p[0] | Point(X) | Point(X) => cc
p: len(p) + p.x | Point(X) | Point(X) | Point(X, 2) => ccc
p: p and p.x + 1 | Point(X) | Point(X) | Point(X, 0) => ccc
p, q: (p + q).x | Point(X), Point(Y) | Point(X), Point(Y) => cc
p, a: p(a) | Point(X), Y | Point(X), Y | Child(X), Y | Child(X), Y => cccc
a: Point(a, 2) | X | X | Y => chh
a: Point.make(a).x + Point.of(a).y | X | X => ch
p: p == Point(1, 1) and p.x + 1 | Point(X) | Point(X) | Point(X, 2) => ccc
p: getattr(p, "x") + hasattr(p, "z") | Point(X) | Point(X) => cc
p: isinstance(p, Child) or p.x + 1 | Point(X) | Point(X) | Child(X) => ccc
p: isinstance(p, Child) or p.x + 1 | Point(X) | Point(X) | Child(X) | Point(X) \
| Child(X) | Child(X) => ccchch
a: LAZY.abc + a | X | X => ch
a: POINT.x + a | X | X | ! POINT.x = torch.zeros(4) | X | X | ! POINT.y = 5 | \
X => chchh
a: POINT(a) | X | X | ! POINT.__class__ = Child | X | X => chch
a: type("T", (Point,), {"n": 3})(a).n + a | X | X => ch
a: Slotted(a).x + 1 | X | X => ch
a: SLOTTED.x + a | X | X | ! SLOTTED.x = 1 | X => chc
write_attribute | Point(X) | Point(X) | Point(Y) => eee
a: setattr(POINT, "z", a * 2) | X | X => ch
a: copy.copy(POINT).x + a | X | X => ch
a: KIND is Kind.ADD and a + 1 | X | X | ! KIND = Kind.MUL | X => chc
modules
NET | X | X | SMALL | X => chch
NET | X | X | ! NET.scale = 3.0 | X | X | ! NET.scale = 4.0 | X => chchh
NET | X | X | ! NET.names.append("b") | X | X => chch
NET | X | X | ! NET.layer.bias.data.zero_() | X => chh
NET | X | X | ! NET.layer = nn.Linear(4, 4); nn.init.ones_(NET.layer.weight); \
nn.init.ones_(NET.layer.bias) | X | X => chch
NET | X | X | ! NET.seen = torch.ones(4) | X => chh
NET | X | X | ! NET.new = 1 | X => chh
NET | X | X | ! NET.double() | DOUBLE | DOUBLE => chch
NET | X | X | ! NET.layer.weight.requires_grad_(False) | X => chc
NET | X | X | ! NET.drop.p = 0.1 | X => chc
NET | X | X | ! NET.layer.register_forward_hook(lambda m, i, o: o + 1) | X | \
X => chch
a: NET(a) | X | X | ! NET.drop.train(True); NET.drop.p = 0.0 | X | X => chch
COUNTING | X | X | X | X => cchh
KEEPING | X | X | X | X => cchh
a: nn.functional.linear(a, NET.layer.weight) | X | X => ch
a: [p.sum() for p in NET.parameters()] | X | X => ch
a: sum(p.numel() for p in NET.parameters()) + a | X | X => ch
a: dict(NET.named_buffers())["seen"] + a | X | X => ch
a: NET.training or a + 1 | X | X | ! NET.train() | X => chc
a: nn.Sequential(NET.layer, nn.ReLU())(a) | X | X => ch
builtins
a: a + abs(-2) + pow(2, 3) + divmod(7, 2)[1] | X | X => ch
a: a + min(1, 2) + max([3, 4]) + sum((1, 2)) | X | X => ch
a: a * all([True, 1]) + any([0]) | X | X => ch
a: [a + i for i in reversed(range(3))] | X | X => ch
a: a + ord("a") - len(chr(98) + hex(3)) | X | X => ch
a: a + int("12", 3) + float("0.5") | X | X => ch
a: isinstance(a, torch.Tensor) and callable(len) and a + 1 | X | X => ch
a: a[slice(0, 2)] | X | X => ch
a: list(zip(a, range(3))) | X | X => ch
a: "{:.1f}".format(2.25) == "2.2" and a + 1 | X | X => ch
a: a + len("a b c".split()) + "abc".find("c") | X | X => ch
a: a + operator.mul(2, 3) + math.gcd(4, 6) | X | X => ch
a: print() or a + 1 | X | X => ch
a: next(iter([a, 1])) + 1 | X | X => ch
a: type(a)(a) is not None and a + 1 | X | X => ch
a: vars(rows)["first"] + a | X | X | ! rows.first = 4 | X => chc
numpy
a: from_numpy(a, ARRAY) | X | X | ! ARRAY[0] = 5 | X => chc
a: a + numpy.sqrt(4.0) | X | X => ch
a: a * numpy.prod([2, 3]) | X | X => ch
a: a + torch.tensor(numpy.arange(4)) | X | X => ch
a, n: a + n | X, numpy.float32(2) | X, numpy.float32(2) | X, numpy.float32(3) \
=> chc
a, n: a[n] | X, numpy.int64(1) | X, numpy.int64(1) | X, numpy.int64(2) => chc
a: a.sum().numpy().item() | X | X => ch
a: a.sum().numpy() + 1 | X | X => ch
a: numpy.asarray(a.shape).prod() + a | X | X | SMALL => chc
control flow
branch | X, True | X, True | X, False | X, True => chch
branch | X, 1 | X, 1 | X, 0 => chc
branch | X, [] | X, [] | X, [1] => chc
loop | X, 2 | X, 2 | X, 3 | X, 2 => chch
search | X, 5 | X, 5 | X, 9 | X, 10 => chcc
skip | X, [1, None, 2] | X, [1, None, 2] | X, [1, -1, 2] => chc
by_shape | X | X | SMALL | X | SMALL => chchh
by_type | X | X | [X] | (X,) | X => chcch
by_value | X | X | -X | X | -X => chchh
by_length | [X] | [X] | [X, Y] | [X] => chch
match | X, {"scale": 2} | X, {"scale": 2} | X, [3] | X, None => chcc
try_key | X, {"x": 1} | X, {"x": 1} | X, {} | X, {} => chch
a: a + 1 if a.dim() == 2 else a | X | X | X[0] => chc
a, n: a + (n > 1) + (not n) | X, 2 | X, 2 | X, 0 => chc
a, items: [v for v in items if v > 1][0] + a | X, [1, 2] | X, [1, 2] | X, [3, \
0] => chc
a: next(i for i in range(5) if i * i > NUMBER) + a | X | X | ! NUMBER = 9 | X \
=> chc
sizes
a: a.reshape(-1) | X | X | SMALL | WIDE | X => chcch
a: a @ a.T | X | SMALL | WIDE | X => ccch
a: torch.zeros(a.shape[0], 2) | X | SMALL | X | SMALL => cchh
a: a[: a.shape[0] // 2] | X | X | SMALL => chc
a: a.expand(2, *a.shape) | X | X | SMALL => chc
a: torch.arange(a.shape[1]) + a | X | X | WIDE => chc
a: a.mean(0, keepdim=True) - a | X | SMALL | WIDE | X => ccch
a: a | X | SMALL | X => cch
"""


@pytest.mark.parametrize(("program", "steps", "want"), sequences(SEQUENCES))
def test_sequence(program: str, steps: list[str], want: str) -> None:
    check_sequence(program, steps, want)
