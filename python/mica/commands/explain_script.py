"""`mica explain`: runs a script and tells what became of what it compiled."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TextIO

from mica.compile import keep_compiled
from mica.explain import explain
from mica.explaining.sections import SECTIONS

_Callable = Callable[..., object]


def add_parser(
    words: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Adds the word to the command's parser."""
    parser = words.add_parser(
        "explain",
        help="run a script, then explain each callable that it compiled",
    )
    parser.add_argument(
        "--details",
        metavar="SECTION",
        choices=("all", *SECTIONS),
        help=f"instead of the summary: all, {', '.join(SECTIONS)}",
    )
    parser.add_argument("--out", help="a file to write to instead of stdout")
    parser.add_argument(
        "-m",
        dest="is_module",
        action="store_true",
        help="SCRIPT is the name of a module",
    )
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if not options.is_module and not os.path.exists(options.script):
        raise FileNotFoundError(f"there is no {options.script}")
    with keep_compiled() as compiled:
        status = _run_script(options)
    sys.stdout.flush()
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            _write(compiled, options.details, file)
    else:
        _write(compiled, options.details, sys.stdout)
    return status


def _run_script(options: argparse.Namespace) -> int:
    """Runs it as Python would; its exit status."""
    before = sys.argv, sys.path[0]
    sys.argv = [options.script, *options.arguments]
    try:
        if options.is_module:
            sys.path[0] = os.getcwd()
            runpy.run_module(
                options.script, run_name="__main__", alter_sys=True
            )
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(options.script))
            runpy.run_path(options.script, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[0] = before
    return 0


def _write(
    compiled: Sequence[_Callable], details: str | None, file: TextIO
) -> None:
    if not compiled:
        print("mica: the script compiled nothing", file=file)
    for one in compiled:
        report = explain(one)
        if details is None:
            print(report, file=file)
        else:
            section = None if details == "all" else details
            print(f"{report.name}\n{report.details(section)}", file=file)
