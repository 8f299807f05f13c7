"""What of eager's calls native ops leave to ATen: the one list of it.

A call that inference refuses has to be listed here, and what is listed has to
be met: an entry that no sample needs any longer fails the test.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Gap:
    """Calls of `op` that are refused with a message that ends in `reason`."""

    op: str
    reason: str
    because: str


GAPS = (
    Gap(
        "aten.index.Tensor",
        "a mask gives a size that depends on data",
        "a Program's sizes are fixed; capture refuses such a call as well",
    ),
    Gap(
        "aten.index_put",
        "a mask beside other indices",
        "the mask's size would have to fit the indices', which a run shows",
    ),
    Gap(
        "aten.linspace",
        "integers beside which the steps lie",
        "ATen rounds them in vectors, whose length is the machine's",
    ),
    Gap(
        "aten.native_dropout",
        "training draws numbers",
        "ATen draws them, from torch's own generator, also with p = 0",
    ),
)
