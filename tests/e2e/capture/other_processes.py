"""Functions of tests that run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

_SECONDS = 120


def run_apart(function: Callable[..., Any], *args: Any) -> None:
    """Calls a function of a module, for what a process can't take back.

    Args:
        function: One that its module has under its name. It returns nothing,
            and raises what makes the test fail.
        *args: Values whose repr() gives them back.

    Raises:
        AssertionError: The process failed; the text is what it wrote.
    """
    module, name = function.__module__, function.__name__
    call = f"module.{name}({', '.join(map(repr, args))})"
    done = subprocess.run(
        [sys.executable, "-c", f"import {module} as module; {call}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stderr
