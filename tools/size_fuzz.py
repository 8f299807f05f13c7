#!/usr/bin/env python3
"""Looks for programs that Mica serves wrongly at sizes that it didn't watch.

    .venv/bin/python tools/size_fuzz.py --programs 1000 --seed 1 --json
    .venv/bin/python tools/size_fuzz.py --seed 1 --only 47

Each program is called with tensors of ever other sizes, and so is its eager
twin. The last line with --json is one JSON object: `programs`, `calls`,
`hits`, `captures`, `programs_at_most_2_captures`, `refused` (calls that ran
eagerly), `differences`, and the `finds`.
"""

from __future__ import annotations

import sys

from size_fuzzing.command import main

if __name__ == "__main__":
    sys.exit(main())
