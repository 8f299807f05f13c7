"""Lists every native op with what became of torch's samples, dtype by dtype.

Usage: PYTHONPATH=python:tests python tests/conformance/opinfo_report.py
  [--samples N] [--functions NAME …]
Without --samples, all samples run, which takes some minutes.
"""

from __future__ import annotations

import argparse
import collections
import sys
import warnings

import torch
from conformance import agreement, direct_calls, one_op, samples
from conformance.tally import Tally


class Report:
    """The outcome of a walk over samples."""

    def __init__(self) -> None:
        self.tally = Tally(tells_numbers_apart=True)
        self.calls: collections.Counter[tuple[str, torch.dtype]] = (
            collections.Counter()
        )
        self.differences: list[tuple[str, str]] = []

    def add(self, op: one_op.OneOp) -> None:
        """Runs a call that was not met before."""
        if not self.tally.is_new(op):
            return
        self.calls[op.name, op.dtype] += 1
        try:
            program, refusal = agreement.parse(op)
            if program is None:
                self.tally.refuse(op, refusal)
                return
            found = agreement.disagreement(op, program)
        except (ValueError, LookupError, RuntimeError) as error:
            found = str(error)
        if found is None:
            self.tally.agree(op)
        else:
            self.differences.append((f"{found}", op.text))

    def cell(self, name: str, dtype: torch.dtype) -> str:
        """Calls that agree of those that torch took; "-" if it took none."""
        count = self.calls[name, dtype]
        agreed = self.tally.agreed[name, dtype]
        return "-" if count == 0 else f"{agreed}/{count}"

    def print(self) -> None:
        """Prints the table, refusals, differences and totals."""
        heads = [str(dtype).removeprefix("torch.") for dtype in samples.DTYPES]
        print(f"{'op':52}" + "".join(f"{head:>11}" for head in heads))
        for name in agreement.registered():
            if name.startswith("aten."):
                cells = [self.cell(name, dtype) for dtype in samples.DTYPES]
                print(f"{name:52}" + "".join(f"{cell:>11}" for cell in cells))
        print("\nLeft to ATen:")
        for (name, reason), dtypes in self.tally.refusals.items():
            names = sorted(
                str(dtype).removeprefix("torch.") for dtype in dtypes
            )
            print(f"  {name}: {reason} ({', '.join(names)})")
        print("\nDifferences:")
        for found, text in self.differences:
            print(f"  {found}\n{text}")
        agreed = sum(self.tally.agreed.values())
        print(
            f"\n{sum(self.calls.values())} calls: {agreed} agree, "
            f"{len(self.differences)} differ, the others are left to ATen"
        )


def main() -> int:
    """Runs the walk and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=None)
    parser.add_argument("--functions", nargs="*", default=None)
    flags = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    report = Report()
    registered = agreement.registered()
    for name, infos in samples.functions().items():
        if flags.functions is not None and name not in flags.functions:
            continue
        for op in samples.all_calls(infos, flags.samples, registered):
            report.add(op)
        print(f"{name}: {sum(report.calls.values())} calls", file=sys.stderr)
    if flags.functions is None:
        for name in direct_calls.CALLS:
            for op in samples.direct_call_ops(name):
                report.add(op)
    report.print()
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
