"""What compiled calls do to memory is what eager's do.

Each function of torch's OpInfo database is compiled as it is, in its in-place
form, and with a result to write. The call that is watched and those that are
served must give eager's results, lying as eager's do; be or share memory with
the arguments that eager's do; write what eager writes and nothing else; and
move the version counters that eager moves.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from conformance import agreement, effects, samples

import mica

FUNCTIONS = samples.functions()
SAMPLES = {torch.float32: 2, torch.int64: 1, torch.bool: 1}
CALLS = 3  # Watched, and served twice.

# Nothing that compiling could keep: the contents are those of stray memory.
EMPTY = ("empty", "new_empty")
# Equal elements may trade places.
UNSTABLE = ("argsort", "sort", "topk", "msort")

functions_run: set[str] = set()
served: set[tuple[str, str]] = set()

Call = Callable[..., Any]


def forms(info: Any, sample: Any) -> Iterator[tuple[str, Call, Any]]:
    """The ways to call a function on a sample: name, callable, arguments."""
    given = (sample.input, sample.args, sample.kwargs)

    def plain(x: Any, args: Any, kwargs: Any) -> Any:
        return info.op(x, *args, **kwargs)

    def in_place(x: Any, args: Any, kwargs: Any) -> Any:
        return info.inplace_variant(x, *args, **kwargs)

    def into(x: Any, args: Any, kwargs: Any, out: Any) -> Any:
        return info.op(x, *args, **kwargs, out=out)

    yield "plain", plain, given
    if info.inplace_variant is not None and isinstance(
        sample.input, torch.Tensor
    ):
        yield "in place", in_place, given
    if not info.supports_out:
        return
    result = None
    with contextlib.suppress(*samples.REFUSALS):
        result = plain(*effects.copied(given))
    if isinstance(result, torch.Tensor):
        yield "into", into, (*given, torch.ones_like(result))


def is_near(got: Any, want: Any) -> bool:
    """Equal, floats within what the order of sums makes of them."""
    if not isinstance(want, torch.Tensor):
        return bool(got == want or (got != got and want != want))
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if want.layout != torch.strided:
        return bool(got.layout == want.layout)
    if want.is_floating_point() or want.is_complex():
        return torch.allclose(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)
    return torch.equal(got, want)


def difference(
    got: effects.Effects, want: effects.Effects, *, compares_values: bool
) -> str | None:
    """What was done otherwise, or None."""
    if got.structure != want.structure:
        return "structure"
    if compares_values and not all(
        is_near(a, b) for a, b in zip(got.results, want.results, strict=True)
    ):
        return "results"
    if not all(
        is_near(a, b)
        for a, b in zip(got.arguments, want.arguments, strict=True)
    ):
        return "arguments"
    if got.is_written != want.is_written:
        return "versions"
    if got.same_as != want.same_as or got.shares_with != want.shares_with:
        return "aliases"
    if got.places != want.places:
        return "places"
    return None


def check(name: str, info: Any, sample: Any) -> None:
    is_loose = info.name.startswith(EMPTY) or info.name in UNSTABLE
    for form, call, arguments in forms(info, sample):
        try:
            torch.manual_seed(0)
            want = effects.effects_of(call, effects.copied(arguments))
        except samples.REFUSALS:
            continue
        compiled = mica.compile(call)
        for i in range(CALLS):
            torch.manual_seed(0)
            got = effects.effects_of(compiled, effects.copied(arguments))
            found = difference(got, want, compares_values=not is_loose)
            assert found is None, (
                f"{name} {form}, call {i}: {found}\n"
                f"{got.summary()}, not\n{want.summary()}"
            )
        report = mica.explain(compiled)
        if report.hits:
            served.add((name, form))
        for reason in report.refusals:
            # Inference refuses nothing that eager has taken.
            assert ": wants " not in str(reason), f"{name} {form}: {reason}"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", FUNCTIONS)
def test_does_what_eager_does(name: str) -> None:
    functions_run.add(name)
    for info in FUNCTIONS[name]:
        for dtype, count in SAMPLES.items():
            if info.supports_dtype(dtype, "cpu"):
                for sample in samples.samples(info, dtype, count):
                    check(name, info, sample)


@pytest.fixture
def all_ran() -> None:
    if functions_run < FUNCTIONS.keys():
        pytest.skip("only some of the functions ran")


@pytest.mark.usefixtures("all_ran")
def test_most_functions_are_served() -> None:
    counts = {
        form: sum(kind == form for _, kind in served)
        for form in ("plain", "in place", "into")
    }
    assert counts["plain"] >= 400, counts
    assert counts["in place"] >= 90, counts
    assert counts["into"] >= 200, counts


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        (name, schema)
        for name, schema in agreement.registered().items()
        if name.startswith("aten.")
    ],
)
def test_declared_aliases_are_torchs(name: str, schema: str) -> None:
    """Parameters, results, and what shares memory with what."""
    parts = name.split(".")
    theirs = torch._C._get_schema(
        f"aten::{parts[1]}", parts[2] if len(parts) > 2 else ""
    )
    ours = torch._C.parse_schema(schema)
    for mine, other in (
        (ours.arguments, theirs.arguments),
        (ours.returns, theirs.returns),
    ):
        assert len(mine) == len(other)
        for a, b in zip(mine, other, strict=True):
            assert alias_of(a) == alias_of(b)
    assert [a.name for a in ours.arguments] == [
        a.name for a in theirs.arguments
    ]


def alias_of(item: Any) -> tuple[frozenset[str], bool] | None:
    info = item.alias_info
    if info is None:
        return None
    return frozenset(info.before_set), info.is_write
