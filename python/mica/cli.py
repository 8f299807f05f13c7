"""The command `mica`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mica.commands import (
    cache,
    doctor,
    explain_script,
    import_program,
    run_program,
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mica", description="A static-graph runtime for PyTorch programs."
    )
    words = parser.add_subparsers(dest="word", required=True)
    for command in (
        doctor,
        explain_script,
        import_program,
        run_program,
        cache,
    ):
        command.add_parser(words)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
      arguments: What follows `mica`; by default the process's.
    Returns:
      The exit status: 0, 1 where something is wrong, 2 where the arguments
      are; of `mica explain`, what the script ends with.
    """
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (OSError, ValueError, LookupError, RuntimeError) as error:
        print(f"mica: {error}", file=sys.stderr)
        return 1
    return status
