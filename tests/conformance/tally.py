"""Counts what became of calls, by op and dtype."""

from __future__ import annotations

import collections

import torch
from conformance import one_op


class Tally:
    """What became of the calls of one walk over the samples."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.agreed: collections.Counter[tuple[str, torch.dtype]] = (
            collections.Counter()
        )
        # By op and reason, with the dtypes.
        self.refusals: dict[tuple[str, str], set[torch.dtype]] = {}

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
