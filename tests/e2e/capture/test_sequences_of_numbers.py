"""What is captured anew and what is served: numbers, theirs and Python's.

A line is a program, its calls, and what happens at each: sequences_of_calls.py
tells more.
"""

import types

import pytest
import torch
from e2e.capture.sequences_of_calls import check_sequence, sequences

import mica

SEQUENCES = """\
scalars
a, n: a + n | X, 1 | X, 1 | X, 2 | X, 1 | X, 2 => chchh
a, n: a * n | X, 0.5 | X, 0.5 | X, 0.25 | X, 0.75 | X, 0.5 => chchh
a, n: a + n | X, 1 | X, 1.0 | X, True | X, 1 => ccch
a, n: a + n | X, True | X, False | X, True => cch
a, n: a + n | X, 2j | X, 2j | X, 1j => chc
a, n: a + n.__class__(1) | X, 1 | X, 2 | X, 1.5 => ccc
a, n: (a, n) | X, 1 | X, 1 | X, 2 => chc
a, n: (a * 2, n + 1) | X, 1 | X, 1 | X, 2 | X, 2 => chch
a, n: a[n] | X, 0 | X, 0 | X, 1 | X, 0 => chch
a, n: a.sum(n) | X, 0 | X, 1 | X, 0 => cch
a, n: a if n is None else a + n | X, None | X, 1 | X, None | X, 1 => cchh
a, n: a + len(n) | X, "ab" | X, "ab" | X, "cd" | X, "abc" => chcc
a, n: a if n == "x" else -a | X, "x" | X, "y" | X, "x" | X, "z" => cchc
a, n: a + n // 2 + n % 3 | X, 5 | X, 5 | X, 4 => chc
a, n: a + math.floor(n) | X, 1.5 | X, 1.5 | X, 2.5 => chc
a, n: a + math.sqrt(n) | X, 2.0 | X, 2.0 | X, 3.0 | X, 4.0 => chch
a, n: a * -n | X, 1.5 | X, 2.5 | X, 3.5 | X, 1.5 => cchh
a, n: a + max(n, 2) | X, 1 | X, 1 | X, 3 => chc
a, n: a + round(n, 1) | X, 1.25 | X, 1.25 | X, 2.75 => chc
a, n: a + int(n) | X, "3" | X, "3" | X, "4" => chc
a, n: a.to(n) | X, torch.float64 | X, torch.float64 | X, torch.int32 => chc
a, n: a + float("nan") * n | X, 0.0 | X, 0.0 => ch
a, n: a + (n if n > 0 else -n) | X, 1.5 | X, 1.5 | X, -1.5 | X, 2.5 => chcc
a, n: a | X, 1 | X, 2 | X, 3 => cch
a, n: a * (n and 2) | X, 0 | X, 0 | X, 3 => chc
a, n: f"{n}" == "3" and a + 1 | X, 3 | X, 3 | X, 4 => chc
random state
a: a + random.random() * 0 | X | X => ch
a: (random.seed(3), a + random.random()) [1] | X | X => ch
a: (random.getstate(), a + random.random()) [1] | X | X => ep
a: torch.manual_seed(1) and a + torch.rand(4) | X | X => ch
a: a + numpy.random.RandomState(0).rand() | X | X => ch
a: nn.functional.dropout(a, 0.0) | X | X => ch
scalar provenance
a: (a.sum().item() > 0, 1)[0] * a | X | X | -X | X => chch
a: {"k": a.sum().item() > 0}["k"] * a | X | X | -X | X => chch
a: (lambda b=(a.sum().item() > 0): a if b else -a)() | X | X | -X | X => chch
a: a * [1, 2][int(a.sum().item() > 0)] | X | X | -X | X => chch
a: a + int(a[0, 1].item()) + 1 | X | X | X + 1 | X => chhh
a: a + bool(a[0, 0]) | X | X | X + 1 => chc
a: a[: int(a[0, 2])] | X | X | X + 1 | X => chch
a: torch.zeros(int(a[0, 2])) | X | X | X + 1 | X => chch
a: a.sum().item() if a.sum().item() > 0 else a | X | X | -X | X => chch
a: max(a[0, 1].item(), a[0, 2].item()) * a | X | X | -X | X => chhh
a: a * min(1.0, a[0, 1].item() / 3) | X | X | X + 5 | X => chhh
a: a + round(a[0, 1].item()) | X | X | X + 5 => chh
a: f"{a[0, 1].item():.2f}" == "1.00" and a + 1 | X | X | X + 5 => chc
a: str(a[0, 1].item()) == "1.0" or a + 1 | X | X | X + 5 => chc
a: a + math.exp(a[0, 1].item()) | X | X | X + 5 => chh
a: a + len(str(a[0, 1].item())) | X | X | X * 10 | X => chch
a: a * (a[0, 1].item() == 1) | X | X | X + 1 | X => chch
a: a * (1 if a[0, 1] == 1 else 2) | X | X | X + 1 | X => chch
a: a * float(f"{a[0, 1].item()}") | X | X | X + 1 | X => chch
a: a.item() if a.numel() == 1 else a + 1 | X | X | X[0, 1] | X[0, 1] | X[0, \
2] => chchh
a: [i for i in a[0].tolist() if i > 1][0] + a | X | X | X + 5 | X => chch
a: a[0].numpy().max() + a | X | X | X + 5 | X => chch
a: numpy.asarray(a[0]).sum() * a | X | X | X + 5 => chc
a: a + torch.tensor(a[0].tolist()) | X | X | X + 5 => chh
a: a + torch.tensor([a[0, 1].item(), 1]).sum() | X | X | X + 5 => chh
a: a.clamp(max=a[0, 2].item()) | X | X | X + 5 => chh
a: torch.where(a > a.mean().item(), a, 0) | X | X | X + 5 => chh
a: torch.full((2,), a[0, 1].item()) | X | X | X + 5 => chh
a: torch.linspace(0, a[0, 1].item(), 3) | X | X | X + 5 => chh
a: torch.arange(a[0, 2].item()) | X | X | X + 5 | X => chch
a: a.repeat(int(a[0, 1]), 1) | X | X | X + 1 | X => chch
a: a.view(int(a[0, 3]), -1) | X | X | X + 1 | X => chch
a: a ** a[0, 2].item() | X | X | X + 1 | X => chhh
a: a // a[0, 2].item() | X | X | X + 1 | X => chhh
a: a.sum().item() ** 0.5 + a | X | X | X + 5 => chh
a: -a.sum().item() + a | X | X | X + 5 => chh
a: (a.sum().item() - 1) / 2 * a | X | X | X + 5 => chh
a: divmod(a.sum().item(), 7)[1] + a | X | X | X + 5 => chc
a: a if not a.sum().item() else a + 1 | X | X | X * 0 => chc
a: a + (a.sum().item() in (66.0, 3)) | X | X | X + 5 => chc
a: a + 1 if all(v > 0 for v in a[0].tolist()) else a - 1 | X | X | X + 5 | X \
=> chch
a: sorted(a[0].tolist())[0] + a | X | X | -X | X => chch
a: a.argmax().item() + a | X | X | -X | X => chhh
a: a[a.argmax().item() // 4] | X | X | -X | X => chhh
a: a.max().item() is None or a + 1 | X | X => ch
a: (a.nonzero().shape[0]) * a | X | X | X + 1 | X => chch
a: a.unique().numel() + a | X | X | X * 0 | X => chch
a: a.isnan().any().item() or a + 1 | X | X | X * float("nan") | X => chch
a: a.equal(X) and a + 1 | X | X | Y | X => chch
a: torch.equal(a, Y) or a + 1 | X | X | Y | X => chch
a: torch.allclose(a, X) and a + 1 | X | X | Y | X => chch
a: (a == X).all() and a + 1 | X | X | Y | X => chch
a: a in [1, 2] if a.numel() == 1 else a | X | X | X[0, 1] | X[0, 3] => chcc
a: X[0] in a and a + 1 | X | X | Y => chc
a: [X, Y].index(a) if a is X else a | X | X => ch
a: a.tolist() == [[1]] or a + 1 | X | X => ch
outcomes of comparisons
a: a * 2 if a.sum().item() > 0 else a | X + 1 | X + 2 | X + 3 | X + 4 | -X | \
-X - 1 | X => chhhchh
a: a * 2 if 0 < a.mean().item() <= 100 else a | X + 1 | X + 2 | X * 300 | X * \
400 | -X | X => chchch
a: a * 2 if a.sum().item() == 66 else a | X | X | X + 1 | X + 2 | X => chchh
a: a * 2 if a.sum().item() != 66 else a | X + 1 | X + 2 | X | X + 3 => chch
a: a * 2 if a.sum().item() else a | X + 1 | X + 2 | X * 0 | X + 3 => chch
a: a * 2 if not a.sum().item() else a | X + 1 | X + 2 | X * 0 | X + 3 => chch
a: a * max(a.sum().item(), 0.5) | X + 1 | X + 2 | -X | -X - 1 | X => chhhh
a: a * min(1.0, a.sum().item()) | X + 1 | X + 2 | -X | -X - 1 | X => chhhh
a: a if math.isnan(a.sum().item()) else a + 1 | X + 1 | X + 2 | X * \
float("nan") | X + 3 => chch
a: a if math.isinf(a.sum().item()) else a + 1 | X + 1 | X + 2 | X * \
float("inf") | X + 1 + float("inf") | X + 3 => chhch
a: a if math.isfinite(a.sum().item()) else a + 1 | X + 1 | X + 2 | X * \
float("inf") | X + 3 => chch
a: a * (1 / a.sum().item() if a.sum().item() > 0 else 1.0) | X + 1 | X + 2 | \
X * 0 | X + 3 => cheh
a, n: a * n if n > 0.5 else a | X, 0.75 | X, 0.8 | X, 0.9 | X, 0.25 | X, 0.3 \
| X, 0.9 | X, float("nan") => cchchhh
a, n: a * min(n, 1.0) | X, 0.75 | X, 0.8 | X, 1.5 | X, 2.5 | X, 0.3 => ccchh
a, n: (a * n, n > 0.5) | X, 0.75 | X, 0.8 | X, 0.9 | X, 0.25 | X, 0.3 => \
cchch
a: a + (a[0, 1].item() < a[0, 2].item()) | X | X + 1 | -X | X * 2 => chch
a: sorted([a[0, 1].item(), a[0, 2].item()])[0] + a | X | X + 1 | -X | X * 2 \
=> chch
a: a[a > a.mean().item()] | X | X | X + 1 => chh
a: a.clamp(max=2.0) if a.max().item() > 2 else a.clone() | X | X + 1 | X * 0 \
| X + 5 => chch
a: a * 2 if a[0, 1].item() > SCALE else a | X | X + 1 | X + 5 | X + 6 => chch
a, n: a * 2 if n > a.mean() else a | X, 0.5 | X, 0.75 | X, 100.5 | X, 200.5 \
=> ccch
a, n: a * 2 if 1 < n < 2 else a | X, 1.5 | X, 1.25 | X, 1.75 | X, 2.5 | X, \
3.5 | X, 1.1 => cchchh
ints that vary
a, n: a + n | X, 1 | X, 2 | X, 3 | X, 300 | X, -7 | X, 2 ** 60 | X, 2.0 => \
cchhhcc
a, n: a * n + n * n - n | X, 1 | X, 2 | X, 3 | X, 4 => cchh
a, n: a * 0.9 ** n / (1 - 0.9 ** n) | X, 1 | X, 2 | X, 3 | X, 4 => cchh
a, n: a * (n // 3 + n % 3) | X, 1 | X, 2 | X, 3 | X, -4 => cchh
a, n: a * (n / 10) | X, 1 | X, 2 | X, 3 | X, 4 => cchh
a, n: a * 2 if n % 3 == 0 else a + 1 | X, 0 | X, 1 | X, 2 | X, 3 | X, 4 | X, \
5 | X, 6 => cchchhh
a, n: a * min(1.0, n / 3) | X, 0 | X, 1 | X, 2 | X, 3 | X, 4 | X, 5 => cchhhh
a, n: (a, n, n + 1) | X, 1 | X, 2 | X, 3 | X, 4 => cchh
a, n: a + math.cos(n) | X, 1 | X, 2 | X, 3 | X, 4 => cchh
a, n: a + INTS * n | X, 1 | X, 2 | X, 3 | X, 1 => ccch
a, n: a[n] | X, 0 | X, 1 | X, 2 | X, 0 | X, 1 => cchhh
a, n: a[:n] | X, 0 | X, 1 | X, 2 | X, 0 | X, 1 => ccchh
a, n: a.sum(n) | X, 0 | X, 1 | X, 0 | X, 1 => cchh
a, n: a + [3, 1, 4][n] | X, 0 | X, 1 | X, 2 | X, 0 => ccch
a, n: a + sum(i for i in (n, 1)) | X, 0 | X, 1 | X, 2 | X, 0 => cchh
a, n: a + len({n, 1}) | X, 0 | X, 1 | X, 2 | X, 0 => ccch
a, n: a + len({n: 1, 1: 2}) | X, 0 | X, 1 | X, 2 | X, 0 => ccch
a, n: a + ((n, 1) == (1, 1)) | X, 0 | X, 1 | X, 2 | X, 0 => ccch
a, n: a + (n in (1, 2)) | X, 0 | X, 1 | X, 2 | X, 0 => ccch
a, n: a + (1 in [n, 5]) | X, 0 | X, 1 | X, 2 | X, 0 => ccch
a, n, m: a + (n is m) | X, 1, 2 | X, 2, 2 | X, 3, 2 | X, 3, 3 => cccc
a: a * COUNTING.calls | ! COUNTING.calls = 1 | X | ! COUNTING.calls = 2 | X | \
! COUNTING.calls = 3 | X => cch
a: COUNTING(a) | X | X | X | X | X => cchhh
a: a / (a > 0).sum().item() | X | X + 1 | X - 1 | X + 2 => chhh
a: a if (a > 0).sum().item() == 0 else -a | X | X + 1 | X * 0 | X - 3 => chch
a: a * int((a > 5).sum()) | X | X + 1 | X - 1 | X + 2 => chhh
whole numbers, places, and numbers on the way
a, n: a * 2 if n in [5, 9] else a + n | X, 0 | X, 1 | X, 2 | X, 5 | X, 5 | X, \
9 | X, 3 | X, 4.5 | X, True => cchchchcc
a, n: a * 2 if n in {5, 9} else a + n | X, 0 | X, 1 | X, 2 | X, 5 | X, 5 | X, \
9 | X, 3 => cchchch
a, n: a * 2 if n in {5: 1, "x": 2} else a + n | X, 0 | X, 1 | X, 2 | X, 5 | \
X, 5 | X, 3 => cchchh
a, n: a * 2 if n in (5, True) else a + n | X, 0 | X, 1 | X, 2 | X, 5 | X, 3 \
=> ccccc
a, n: a * 2 if n in LIST else a + n | X, 0 | X, 3 | X, 4 | ! LIST.append(4) | \
X, 4 | X, 0 | X, 7 => cchcch
a, n: a * 2 if n in TABLE else a + n | X, 0 | X, 3 | X, 4 | ! TABLE[4] = 1 | \
X, 4 | X, 5 | X, 6 => cchcch
a, n: a + [1, 2, 4][bisect.bisect([3, 6], n)] * n | X, 0 | X, 1 | X, 2 | X, 3 \
| X, 4 | X, 6 | X, 5 | X, 2 => cchchchh
a, n: a + bisect.bisect_left([3, 6], n) * n | X, 0 | X, 1 | X, 3 | X, 4 | X, \
6 | X, 7 | X, 2 => cchchch
a, n: a + math.floor(n) | X, 1.5 | X, 2.5 | X, -2.5 | X, 3.0 | X, 4 | X, 5 => \
cchhch
a, n: a + math.ceil(n) * math.trunc(n) | X, 1.5 | X, 2.5 | X, -2.5 | X, -0.5 \
| X, 3.0 => cchhh
a, n: a + int(n) + round(n) | X, 1.5 | X, 2.5 | X, -2.5 | X, 3.0 | X, 1e18 => \
cchhe
a, n: a + round(n, 1) | X, 1.5 | X, 2.25 | X, 2.25 => cch
a, n: a + abs(n) | X, 1.5 | X, -2.5 | X, -0.0 | X, 4 | X, -5 | X, -6 => cchchh
a, n: a + n // 0.3 + n % 0.3 | X, 1.5 | X, -2.5 | X, 7.0 | X, 0.0 => cchh
a, n: a + 2 ** n | X, 1 | X, 2 | X, 3 | X, 0 | X, -1 | X, 52 | X, 60 => cchhehe
a, n: a + max(n, 2, 5) - min(3, n, 1) | X, 0 | X, 1 | X, 3 | X, 4 | X, 6 | X, \
9 => cchhhh
a, n: a + [v for v in zip([n], [2])][0][0] | X, 0 | X, 1 | X, 2 => cch
a, n: a + sum(zip([n], [2]), ())[0] | X, 0 | X, 1 | X, 2 => cch
a, n: a + max(zip([n, 1], [2, 3]))[1] | X, 0 | X, 1 | X, 2 | X, 3 | X, 0 => \
cccch
a, n: a + dict(zip([n, 1], [2, 3])).get(1) | X, 0 | X, 1 | X, 2 | X, 3 => cccc
a, n: a + len({*zip([n, 1], [1, 1])}) | X, 0 | X, 1 | X, 2 | X, 1 => ccch
a, n: a + ((n, 1) in zip([1, 2], [1, 1])) | X, 0 | X, 1 | X, 2 | X, 3 => cccc
a, n: a + ([n] in [[1], [2]]) | X, 0 | X, 1 | X, 2 | X, 3 => cccc
a, n: a + (n in collections.deque([1, 2])) | X, 0 | X, 1 | X, 2 | X, 3 => cccc
a, n: a + list(i * 2 for i in (n, 1))[0] | X, 0 | X, 1 | X, 2 | X, 3 => cchh
a, n: a + list(reversed([1, n]))[0] + tuple([n])[0] | X, 0 | X, 1 | X, 2 | X, \
3 => cchh
a, n: a + Pair(n, 1).left | X, 0 | X, 1 | X, 2 | X, 3 => cchh
a, n: a + [i * v for i, v in enumerate([n, n], n)][0] | X, 0 | X, 1 | X, 2 | \
X, 3 => cccc
a, n: a + next(iter([n])) + [5, n].pop() | X, 0 | X, 1 | X, 2 | X, 3 => cchh
a, n: a + [5, 6, 7, 8].pop(n) | X, 0 | X, 1 | X, 2 | X, 0 => ccch
a, n: a + {"k": n}.get("k", 0) + {}.get("k", n) | X, 0 | X, 1 | X, 2 | X, 3 \
=> cchh
a, n: a + [v for k, v in {"k": n}.items()][0] | X, 0 | X, 1 | X, 2 | X, 3 => \
cchh
a, n: a + sorted({"k": n, "l": 1}.values())[0] | X, 0 | X, 1 | X, 2 | X, 3 => \
ccch
a: a + ([NESTED[0][0]] == [{"n": 2}]) | X | ! NESTED[0][0]["n"] = 3 | X | ! \
NESTED[0][0]["n"] = 2 | X => cch
a: a + (NESTED == [[{"n": 2}]]) | X | ! NESTED[0][0]["n"] = 3 | X | ! \
NESTED[0][0]["n"] = 2 | X => cch
a: a + ([{"n": 2}] in NESTED) | X | ! NESTED[0][0]["n"] = 3 | X | ! \
NESTED[0][0]["n"] = 2 | X => cch
a: a + len([m for m in zip(NESTED[0], [1])]) | X | ! NESTED[0][0]["n"] = 3 | \
X => ch
a: a + max(zip(NESTED, [1]))[0][0]["n"] | X | ! NESTED[0][0]["n"] = 3 | X => cc
a: a + (list(zip(NESTED)) == [([{"n": 2}],)]) | X | ! NESTED[0][0]["n"] = 3 | \
X | ! NESTED[0][0]["n"] = 2 | X => cch
a: a + len(str(list(zip(NESTED)))) | X | ! NESTED[0][0]["n"] = 300 | X => cc
a: a + len("".join(str(i) for i in zip(NESTED))) | X | ! NESTED[0][0]["n"] = \
300 | X => cc
whole parts as indices, and sums
a, n: a + [1, 2, 4, 8][int(n)] | X, 0.5 | X, 1.2 | X, 1.7 | X, 2.0 | X, 0.1 | \
X, 0.9 | X, -0.5 | X, -1.5 => cchcchhc
a, n: a + [1, 2, 4, 8][math.floor(n)] | X, 0.5 | X, 1.2 | X, 1.0 | X, 2.0 | \
X, 0.1 | X, -0.5 | X, -1.0 => cchccch
a, n: a + [1, 2, 4, 8][math.ceil(n)] | X, 0.5 | X, 1.2 | X, 2.0 | X, 1.0 | X, \
0.9 | X, -0.5 | X, 0.0 => cchchch
a, n: a + [1, 2, 4, 8][round(n)] | X, 0.75 | X, 1.2 | X, 1.5 | X, 2.5 | X, \
0.5 | X, 0.6 | X, -0.5 | X, 1.4 => ccchchhh
a, n: a[int(n) + 1] * n | X, 0.5 | X, 1.2 | X, 1.7 | X, 0.1 | X, 0.9 => cchhh
a: a * sum(LIST) | X | ! LIST[0] = 5 | X | ! LIST[1] = 7 | X | ! LIST[1] = \
0.5 | X | ! LIST[1] = 1.5 | X => cchch
a: a * len(LIST) + LIST[0] | X | ! LIST[0] = 5 | X | ! LIST[0] = 7 | X | ! \
LIST.append(3) | X => cchc
a, n: a * sum([n, 0.1, -n, 3]) | X, 0.5 | X, 1.2 | X, 1.7 | X, 2.0 => cchh
"""


@pytest.mark.parametrize(("program", "steps", "want"), sequences(SEQUENCES))
def test_sequence(program: str, steps: list[str], want: str) -> None:
    check_sequence(program, steps, want)


def test_namespaces_in_tuples_are_what_they_hold():
    space = types.SimpleNamespace(k=1.0)

    def program(t):
        is_same = (space, 1) == (types.SimpleNamespace(k=1.0), 1)
        return t + int(is_same)

    compiled = mica.compile(program)
    t = torch.ones(2)
    for k in (1.0, 1.0, 5.0, 1.0, 5.0, None):
        space.k = k
        assert torch.equal(compiled(t), program(t))
