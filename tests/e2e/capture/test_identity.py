"""Which object an argument is, is known wherever a program asks for it."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.twin_worlds import Twins, programs

IDENTITIES = programs("identities.txt")
IDENTITY_WORLD = IDENTITIES.pop("world")[0]
OWN = programs("own_numbers.txt")
OWN_WORLD = OWN.pop("world")[0]

# They compute with addresses, which no run has again, look for a NaN, make weak
# references that call a function when their object dies, or have a cache's key
# that is no older than the call; in pieces.
NOT_SERVED = {
    "hash_eq",
    "hash_tuple",
    "id_eq",
    "id_in",
    "index",
    "lru",
    "lru_frozen",
    "memo",
    "nan_key",
    "weak_key_build",
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_an_argument_s_identity_is_asked_for_as_eager(name):
    program, arguments = IDENTITIES[name]
    twins = Twins(name, f"{IDENTITY_WORLD}\n{program}\n")
    calls = arguments.splitlines()
    for call in calls + calls + calls[::-1] + calls:
        twins.call(f"R = FN(X, {call})", X=torch.linspace(-1.0, 1.5, 6))
    assert ("h" in twins.letters) == (name not in NOT_SERVED), twins.letters


@pytest.mark.parametrize("name", OWN)
def test_a_watched_run_leaves_the_program_s_own_numbers(name):
    program, call, then = OWN[name]
    twins = Twins(name, f"{OWN_WORLD}\n{program}\n")
    for v, n in [(1.5, 3), (2.5, 4), (3.25, 5), (4.5, 7), (1.75, 4), (2.0, 6)]:
        twins.call(
            call,
            then=then,
            X=torch.linspace(-1.0, 1.5, 6),
            V=float(str(v)),
            N=int(str(n)),
        )
