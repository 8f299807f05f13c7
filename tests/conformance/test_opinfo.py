"""Every native op on torch's own samples: the oracle and the fast kernels.

torch's OpInfo database calls each function on arguments that its authors found
worth a test; what the samples' derivatives call is taken along. Each call of a
native op becomes a Program of one op and is held to what eager made of it. The
registry is walked at the end: an op that no call reached is a failure.

MICA_OPINFO_SAMPLES: how many samples of each function and dtype, or "all".
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import pytest
import torch
from conformance import agreement, direct_calls, gaps, one_op, samples
from conformance.tally import Tally

REGISTERED = agreement.registered()

# Samples come simplest first.
_COUNT = os.environ.get("MICA_OPINFO_SAMPLES", "5")
SAMPLES = None if _COUNT == "all" else int(_COUNT)

FUNCTIONS = samples.functions()

# No call of eager's has the form that these take; test_own_ops.py has them.
ELSEWHERE = {
    "aten._local_scalar_dense",
    # e2e/capture/test_complex.py: OneOp has no complex numbers.
    "aten.view_as_complex",
    "aten.view_as_real",
}

tally = Tally(tells_numbers_apart=SAMPLES is None)
functions_run: set[str] = set()


def check(op: one_op.OneOp) -> None:
    """Compares one Program's results with eager's."""
    if not tally.is_new(op):
        return
    program, refusal = agreement.parse(op)
    if program is None:
        tally.refuse(op, refusal)
        return
    found = agreement.disagreement(op, program)
    assert found is None, f"{found}\n{op.text}"
    tally.agree(op)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_samples_agree_with_eager(name: str) -> None:
    functions_run.add(name)
    for op in samples.all_calls(FUNCTIONS[name], SAMPLES, REGISTERED):
        check(op)


@pytest.mark.parametrize("name", direct_calls.CALLS)
def test_direct_calls_agree_with_eager(name: str) -> None:
    functions_run.add(name)
    assert name in REGISTERED
    for op in samples.direct_call_ops(name):
        check(op)


@pytest.fixture
def all_ran() -> None:
    wanted = FUNCTIONS.keys() | direct_calls.CALLS.keys()
    if functions_run < wanted:
        pytest.skip("only some of the functions ran")


@pytest.mark.usefixtures("all_ran")
@pytest.mark.parametrize(
    "name", [name for name in REGISTERED if name.startswith("aten.")]
)
def test_every_op_is_held_to_eager(name: str) -> None:
    if name in ELSEWHERE:
        return
    assert tally.num_agreed(name) > 0, (
        f"no OpInfo sample calls {name}: list calls in direct_calls.py"
    )


@pytest.mark.usefixtures("all_ran")
def test_every_refusal_is_a_listed_gap() -> None:
    for name, reason in tally.refusals:
        assert any(
            gap.op == name and reason.endswith(gap.reason) for gap in gaps.GAPS
        ), f"{name}: {reason}"


@pytest.mark.usefixtures("all_ran")
@pytest.mark.parametrize("gap", gaps.GAPS, ids=str)
def test_every_listed_gap_is_met(gap: gaps.Gap) -> None:
    assert any(
        name == gap.op and reason.endswith(gap.reason)
        for name, reason in tally.refusals
    ), "this call works now: drop the entry"
