"""Counts what became of calls, by op and dtype."""

from __future__ import annotations

import collections

import torch
from conformance import one_op


class Tally:
    """What became of the calls of one walk over the samples."""

    def __init__(self, *, tells_numbers_apart: bool) -> None:
        """`tells_numbers_apart`: else one call of each Program is enough."""
        self.tells_numbers_apart = tells_numbers_apart
        self._met: set[str] = set()
        self.agreed: collections.Counter[tuple[str, torch.dtype]] = (
            collections.Counter()
        )
        # By op and reason, with the dtypes.
        self.refusals: dict[tuple[str, str], set[torch.dtype]] = {}

    def is_new(self, op: one_op.OneOp) -> bool:
        """True for a call that was not met before."""
        key = op.digest() if self.tells_numbers_apart else op.text
        is_new = key not in self._met
        self._met.add(key)
        return is_new

    def agree(self, op: one_op.OneOp) -> None:
        """Counts a call whose results are eager's."""
        self.agreed[op.name, op.dtype] += 1

    def refuse(self, op: one_op.OneOp, reason: str) -> None:
        """Counts a call that Mica leaves to ATen."""
        self.refusals.setdefault((op.name, reason), set()).add(op.dtype)

    def num_agreed(self, name: str) -> int:
        """Calls of an op that agree, whatever their dtype."""
        return sum(
            count for (op, _), count in self.agreed.items() if op == name
        )
