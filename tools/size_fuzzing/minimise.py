# ruff: noqa: E501
"""Makes a case that differs small, and says what sort of find it is."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator

from size_fuzzing.case import Call, Case
from size_fuzzing.forks import Died, in_child
from size_fuzzing.trial import Outcome, fixed, kind_of, run

_SECONDS = 8


def outcome_of(case: Case, compiles: bool = True) -> Outcome:
    """Runs a case in a child; a crash is a difference, too."""
    try:
        found: Outcome = in_child(lambda: run(case, compiles), _SECONDS)[0]
        return found
    except Died as died:
        slow = "slow" if died.number == 14 else f"crash: signal {died.number}"
        return Outcome(differs=slow, at=len(case.calls) - 1)


def _smaller(case: Case) -> Iterator[Case]:
    replace = dataclasses.replace
    for i in range(len(case.calls)):
        yield replace(case, calls=case.calls[:i] + case.calls[i + 1 :])
    for i in reversed(range(len(case.body))):
        yield replace(case, body=case.body[:i] + case.body[i + 1 :])
    if len(case.results) > 1:
        for one in case.results:
            yield replace(case, results=[one])
        for i in range(len(case.results)):
            rest = case.results[:i] + case.results[i + 1 :]
            yield replace(case, results=rest)
    for i in range(len(case.before)):
        yield replace(case, before=case.before[:i] + case.before[i + 1 :])
    for name in list(case.params)[1:]:
        params = {one: t for one, t in case.params.items() if one != name}
        yield replace(case, params=params)
    if case.form != "function":
        yield replace(case, form="function")
    if case.train == "outside":
        yield replace(case, train="")
    yield from _smaller_arguments(case)
    yield from _smaller_sizes(case)


def _smaller_arguments(case: Case) -> Iterator[Case]:
    for name, text in case.params.items():
        for pattern, by in (
            (r"^(R\([^)]*\), [^)]*\)).*$", r"\1"),
            (r"\.requires_grad_\(\)", ""),
            (r"10 \* AT \+ ", ""),
        ):
            changed = re.sub(pattern, by, text)
            if changed != text:
                yield dataclasses.replace(
                    case, params={**case.params, name: changed}
                )
    for i, call in enumerate(case.calls):
        if call.args:
            calls = list(case.calls)
            calls[i] = Call(call.sizes)
            yield dataclasses.replace(case, calls=calls)


def _smaller_sizes(case: Case) -> Iterator[Case]:
    for name in "BSTK":
        for other in range(len(case.calls)):
            value = case.calls[other].sizes[name]
            calls = [
                Call({**one.sizes, name: value}, one.args) for one in case.calls
            ]
            if calls != case.calls:
                yield dataclasses.replace(case, calls=calls)
    for i, call in enumerate(case.calls):
        for name, size in call.sizes.items():
            for value in {2, 3, size // 2, size - 1}:
                if 2 <= value < size:
                    calls = list(case.calls)
                    calls[i] = Call({**call.sizes, name: value}, call.args)
                    yield dataclasses.replace(case, calls=calls)


def minimise(case: Case, differs: str, seconds: float) -> Case:
    """A case that differs in the same way, of as little as can be."""
    kind = kind_of(differs)
    end = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for smaller in _smaller(case):
            if time.monotonic() > end:
                break
            outcome = outcome_of(smaller)
            if outcome.differs and kind_of(outcome.differs) == kind:
                case, changed = smaller, True
                break
    return case


def judge(case: Case, outcome: Outcome) -> dict[str, bool]:
    """Whether a difference stays with other floats, or with fixed sizes."""
    double = dataclasses.replace(case, dtype="float64")
    # Two eager worlds differ if a program does so by itself.
    return {
        "in float64": bool(outcome_of(double).differs),
        "at fixed sizes": bool(outcome_of(fixed(case, outcome.at)).differs),
        "eager too": bool(outcome_of(case, False).differs),
    }


def script(case: Case, differs: str) -> str:
    """A program of its own that prints OK or WRONG."""
    calls = [(call.sizes, call.args) for call in case.calls]
    lines = ",\n    ".join(map(repr, calls))
    params = "\n".join(
        f"    {name} = {text}" for name, text in case.params.items()
    )
    return _SCRIPT.format(
        differs=differs.replace("\\", "/").replace('"', "'")[:600],
        source=case.source(),
        params=case.params,
        before=case.before,
        calls=lines,
        exact=True if case.exact else None,
        train=case.train,
        shown=params,
    )


_SCRIPT = '''\
"""{differs}"""
import collections, copy, dataclasses, functools, itertools, linecache, math
import operator, sys
import numpy as np, torch
from torch import nn
import torch.nn.functional as F
import mica

torch.set_num_threads(1)
SOURCE = """
import collections, dataclasses, functools, itertools, math, operator
import numpy as np, torch
from torch import nn
import torch.nn.functional as F
def R(shape, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64).to(DT)
def J(shape, high, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(0, max(high, 1), shape, generator=g)
{source}"""
PARAMS = {params!r}
BEFORE = {before!r}
CALLS = [
    {calls}
]
linecache.cache["<case>"] = (len(SOURCE), None, SOURCE.splitlines(True), "<case>")


def world():
    torch.manual_seed(0)
    names = {{}}
    exec(compile(SOURCE, "<case>", "exec"), names)
    return names


def once(fn, names, at, sizes, others):
    torch.manual_seed(at)
    for text in BEFORE:
        given = {{**sizes, "AT": at}}
        names.update(given)
        exec(text, names)
        for one in given:
            names.pop(one)
    args = {{}}
    for name, text in PARAMS.items():
        scope = {{**names, **sizes, **args, "AT": at}}
        args[name] = eval(others.get(name, text), scope)
    try:
        result = fn(*args.values())
        if {train!r} == "outside":
            sum(
                (t * torch.arange(t.numel(), dtype=t.dtype).cos().view(t.shape)).sum()
                for t in flat(result) if t.requires_grad
            ).backward()
        grads = [t.grad for t in args.values() if torch.is_tensor(t) and t.is_leaf]
        modules = [m for m in names.values() if isinstance(m, nn.Module)]
        grads += [p.grad for m in modules for p in m.parameters()]
        for m in modules:
            m.zero_grad() if {train!r} == "outside" else None
        return [result, args, grads, [dict(m.state_dict()) for m in modules]]
    except Exception as error:
        return type(error).__name__


def flat(tree):
    return [t for t in torch.utils._pytree.tree_leaves(tree) if torch.is_tensor(t)]


def show(tree):
    return torch.utils._pytree.tree_map(
        lambda t: (tuple(t.shape), t.flatten()[:6].tolist()) if torch.is_tensor(t) else t, tree)


def same(a, b):
    xs, ys = map(torch.utils._pytree.tree_leaves, (a, b))
    if len(xs) != len(ys):
        return False
    for x, y in zip(xs, ys):
        if not torch.is_tensor(x):
            if isinstance(x, (int, float, str)) and x != y:
                return False
            continue
        if x.shape != y.shape or x.dtype != y.dtype or x.requires_grad != y.requires_grad:
            return False
        x, y = x.detach().double(), y.detach().double()
        top = max(x.nan_to_num(0, 0, 0).abs().max().item(), 0.1) if x.numel() else 1
        if not torch.allclose(x, y, rtol=0, atol=1e-3 * top, equal_nan=True):
            return False
    return True


eager, other = world(), world()
fast = mica.compile(other["program"], exact={exact!r})
for at, (sizes, others) in enumerate(CALLS):
    want = once(eager["program"], eager, at, sizes, others)
    told = mica.explain(fast)
    hits, captures = told.hits, told.captures
    got = once(fast, other, at, sizes, others)
    told = mica.explain(fast)
    how = "hit" if told.hits > hits else "captured" if told.captures > captures else "eager"
    if not same(want, got) or type(want) is not type(got):
        print("call", at, sizes, how, "\\n eager", show(want), "\\n mica ", show(got))
        print("WRONG")
        sys.exit(1)
print("OK")
'''
