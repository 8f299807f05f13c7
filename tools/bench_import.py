#!/usr/bin/env python3
"""How much longer is `import torch; import mica` than `import torch`?

Python's own -X importtime says so, in new processes one after the other: what
`mica` takes, everything below it included, after torch. The first process
may compile bytecode and isn't counted. Exits with 1 above the bar.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys

from bench_common import add_json_flag, write_json

BAR_MS = 100.0
_LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|(\s+)(\S+)$", re.M)


def times() -> dict[str, tuple[float, float]]:
    """Of one process: (its own, with those below) in ms, by module of Mica's.

    What isn't Mica's and is imported for it is there, too.
    """
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import torch; import mica"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    lines = [
        (name, int(own) / 1e3, int(all_) / 1e3)
        for own, all_, _, name in _LINE.findall(done.stderr)
    ]
    after_torch = [name for name, _, _ in lines].index("torch") + 1
    return {name: (own, all_) for name, own, all_ in lines[after_torch:]}


def main() -> int:
    """Measures; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_json_flag(parser)
    parser.add_argument("--runs", type=int, default=10, help="processes")
    arguments = parser.parse_args()
    times()
    runs = [times() for _ in range(arguments.runs)]
    totals = sorted(run["mica"][1] for run in runs)
    median = statistics.median(totals)
    print(
        f"import mica, after torch: {median:.0f} ms "
        f"({totals[0]:.0f} to {totals[-1]:.0f} in {len(totals)} processes; "
        f"bar {BAR_MS:.0f})"
    )
    own = {
        name: statistics.median(run[name][0] for run in runs)
        for name in runs[0]
        if all(name in run for run in runs)
    }
    for name in sorted(own, key=own.__getitem__, reverse=True)[:8]:
        print(f"  {own[name]:5.1f} ms  {name} itself")
    write_json(arguments.json, {"import_ms": totals, "own_ms": own})
    return 0 if median <= BAR_MS else 1


if __name__ == "__main__":
    sys.exit(main())
