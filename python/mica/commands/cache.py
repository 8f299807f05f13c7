"""`mica cache`: the Plans that are kept on disk."""

from __future__ import annotations

import argparse
import re
import time

from mica import _mica

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def add_parser(
    words: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Adds the word to the command's parser."""
    cache = words.add_parser("cache", help="the Plans that are kept on disk")
    actions = cache.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="each Plan, latest use last")
    prune = actions.add_parser(
        "prune", help="remove the Plans that weren't used for longest"
    )
    prune.add_argument(
        "--max-size",
        type=_size,
        default=0,
        help="what the rest may take, for example 64M; 0 removes all",
    )
    verify = actions.add_parser(
        "verify", help="check each file; exit 1 if one is damaged"
    )
    verify.add_argument(
        "--remove",
        action="store_true",
        help="remove the damaged ones and those of other builds",
    )
    for action in (listing, prune, verify):
        action.add_argument(
            "--folder", help="instead of the one that Mica uses"
        )
    cache.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    folder = options.folder or _mica.cache_folder()
    if options.action == "list":
        return _list(folder)
    if options.action == "prune":
        return _prune(folder, options.max_size)
    return _verify(folder, options.remove)


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([kmg]?)b?", text.lower())
    if match is None:
        raise argparse.ArgumentTypeError(
            f"wants a size such as 64M, got {text!r}"
        )
    return int(match[1]) * _UNITS[match[2]]


def _list(folder: str) -> int:
    entries = _mica.cache_list(folder)
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        print(
            f"{entry.name}  {entry.bytes:>10}  {used}  "
            f"{entry.program or '-'}  [{entry.state}]"
        )
    total = sum(entry.bytes for entry in entries)
    print(f"{len(entries)} Plans, {total} bytes in {folder}")
    return 0


def _prune(folder: str, max_bytes: int) -> int:
    print(f"freed {_mica.cache_prune(folder, max_bytes)} bytes in {folder}")
    return 0


def _verify(folder: str, remove: bool) -> int:
    entries = _mica.cache_list(folder)
    damaged = [e for e in entries if e.state not in ("ok", "other build")]
    others = [e for e in entries if e.state == "other build"]
    for entry in damaged:
        print(f"{entry.name}: {entry.state}")
    for entry in (*damaged, *others) if remove else ():
        _mica.cache_remove(folder, entry.name)
    print(
        f"{len(entries)} Plans: {len(damaged)} damaged, "
        f"{len(others)} of other builds{', both removed' if remove else ''}"
    )
    return 1 if damaged and not remove else 0
