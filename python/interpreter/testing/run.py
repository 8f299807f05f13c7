"""Runs the programs and the checks with the interpreter that runs this.

Usage: run.py FOLDER, of the module `mica_interpreter_testing`. Prints JSON:
what the stream tells of each program, why each check failed ("" if not), and
the opcodes that no program has.
"""

from __future__ import annotations

import contextlib
import dis
import io
import json
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any


def codes_in(held: Any, seen: set[int]) -> Iterator[CodeType]:
    """All code in a function, its closure, a class, or a code object."""
    if id(held) in seen:
        return
    seen.add(id(held))
    inner: Iterable[Any] = ()
    if isinstance(held, CodeType):
        yield held
        inner = held.co_consts
    elif hasattr(held, "__code__"):
        cells = held.__closure__ or ()
        inner = [held.__code__, *(cell.cell_contents for cell in cells)]
    elif isinstance(held, type) and held.__module__ == "programs":
        inner = vars(held).values()
    for part in inner:
        yield from codes_in(part, seen)


def main() -> None:
    """Prints the report."""
    sys.path[:0] = [sys.argv[1], str(Path(__file__).parent)]
    import checks
    import frame_checks
    import join_checks
    import key_checks
    import mica_interpreter_testing as stream
    import object_checks
    import stream_checks
    from programs import PROGRAMS

    # What checks.py calls a module, and calls it by.
    module = checks.Module
    stream.init(module, module.__call__.__code__, "/no/torch", "/no/mica")
    opcodes = {
        name
        for name, opcode in dis.opmap.items()
        if opcode < 256 and not name.startswith("INSTRUMENTED_")
    }
    programs = {}
    for name, make in PROGRAMS.items():
        fn = make()
        for code in codes_in(fn, set()):
            opcodes -= {step.opname for step in dis.get_instructions(code)}
        with contextlib.redirect_stdout(io.StringIO()):
            lines, outcome = stream.events(fn, ())
        programs[name] = [*lines, f"=> {outcome!r}"]
    # Each adds its own.
    assert frame_checks and join_checks and key_checks
    assert object_checks and stream_checks
    failures = {}
    for name, check in checks.CHECKS.items():
        try:
            check()
            failures[name] = ""
        except Exception:
            failures[name] = traceback.format_exc()
    result = {
        "programs": programs,
        "checks": failures,
        "opcodes": sorted(opcodes),
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
