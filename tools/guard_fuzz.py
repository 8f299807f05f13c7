#!/usr/bin/env python3
"""Looks for programs that Mica serves otherwise than eager; docs/guard_fuzz.md.

    .venv/bin/python tools/guard_fuzz.py --pairs 100000 --seed 1 --json
    .venv/bin/python tools/guard_fuzz.py --seed 1 --only 4711

The last line with --json is one JSON object: `pairs`, `calls`, `hits`,
`refused`, `differences`, and the distinct `finds`.
"""

from __future__ import annotations

import sys

from guard_fuzzing.command import main

if __name__ == "__main__":
    sys.exit(main())
