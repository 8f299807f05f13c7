"""Options, and the environment variables that they stand for.

`mica.options.set(num_threads=2)` does what MICA_NUM_THREADS=2 in the
environment does; it sets that variable, so that processes that are started
later have it, too. Options of compiled callables count when they are compiled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Option:
    """One setting.

    Attributes:
      variable: The environment variable that it stands for.
      kind: The type of its values.
      default: Its value where the variable isn't set.
      read: Its value by the variable's text.
      write: The variable's text by a value.
      counts: When a change has an effect.
    """

    variable: str
    kind: type
    default: Callable[[], Any]
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    counts: str


def _count(variable: str, default: Callable[[], int], counts: str) -> Option:
    def read(text: str) -> int:
        if not text.isdigit() or int(text) < 1:
            raise ValueError(
                f"{variable}: wants a whole number above 0, got {text!r}"
            )
        return int(text)

    return Option(variable, int, default, read, str, counts)


def _on(variable: str, counts: str) -> Option:
    """One that is on unless its variable is 0."""
    return Option(
        variable, bool, lambda: True, lambda t: t != "0", _digit, counts
    )


def _off(variable: str, counts: str) -> Option:
    """One that is off unless its variable is something else than 0."""
    return Option(
        variable, bool, lambda: False, lambda t: t != "0", _digit, counts
    )


def _text(variable: str, counts: str) -> Option:
    return Option(variable, str, lambda: "", str, str, counts)


def _digit(value: bool) -> str:
    return "1" if value else "0"


_COMPILED = "for what is compiled, and Executors that are made, from then on"
_RUNS = "for Plans that are first run from then on"
_PLANS = "before the process has made its first Plan"

OPTIONS: dict[str, Option] = {
    "num_threads": _count("MICA_NUM_THREADS", torch.get_num_threads, _COMPILED),
    "num_streams": _count("MICA_NUM_STREAMS", lambda: 1, _COMPILED),
    "queue": _on("MICA_QUEUE", _COMPILED),
    "spin": _on("MICA_SPIN", "before the first run on so many threads"),
    "hang_report": Option(
        "MICA_HANG_REPORT",
        float,
        lambda: 0.0,
        float,
        str,
        _RUNS,
    ),
    "poison": _off("MICA_POISON", _RUNS),
    "offload_dir": Option(
        "MICA_OFFLOAD_DIR", str, lambda: "/var/tmp", str, str, _COMPILED
    ),
    "capture_budget": Option(
        "MICA_CAPTURE_BUDGET",
        float,
        lambda: 0.2,
        float,
        str,
        "for what is compiled from then on",
    ),
    "logs": _text("MICA_LOGS", "for what is compiled from then on"),
    "progress": _on("MICA_PROGRESS", "from the next capture on"),
    "disable": _off("MICA_DISABLE", "for what is compiled from then on"),
    "cache_dir": _text("MICA_CACHE_DIR", _PLANS),
    "plan_cache": _on("MICA_PLAN_CACHE", _PLANS),
}


class Change:
    """What `set` gives: as a context manager, it takes the change back."""

    def __init__(self, before: dict[str, str | None]) -> None:
        self._before = before

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        for variable, text in self._before.items():
            _write(variable, text)


def get(name: str) -> Any:
    """The value of an option.

    Args:
      name: One of OPTIONS.
    Returns:
      What was set, or what its variable says, or its default.
    Raises:
      LookupError: There is no such option.
      ValueError: The variable's text is malformed.
    """
    option = _find(name)
    text = os.environ.get(option.variable, "")
    return option.read(text) if text else option.default()


def set(**values: Any) -> Change:
    """Sets options, in all threads.

    | option | variable | what |
    |---|---|---|
    | `num_threads` | MICA_NUM_THREADS | threads of one op, or of the queue |
    | `num_streams` | MICA_NUM_STREAMS | threads for ops that are independent |
    | `queue` | MICA_QUEUE | whether threads take ops from a queue |
    | `spin` | MICA_SPIN | whether idle threads look for work for a moment |
    | `hang_report` | MICA_HANG_REPORT | seconds; 0 for no reports |
    | `poison` | MICA_POISON | whether memory that is free is overwritten |
    | `offload_dir` | MICA_OFFLOAD_DIR | where offloaded weights lie |
    | `capture_budget` | MICA_CAPTURE_BUDGET | seconds of idle captures |
    | `logs` | MICA_LOGS | such as "guards,recompiles,graph" |
    | `progress` | MICA_PROGRESS | whether slow captures are told of |
    | `disable` | MICA_DISABLE | whether compiled callables run eagerly |
    | `cache_dir` | MICA_CACHE_DIR | where Plans are kept on disk, all of them |
    | `plan_cache` | MICA_PLAN_CACHE | whether Plans are kept on disk |

    Args:
      **values: By name; None for what it is without being set.
    Returns:
      A context manager: `with mica.options.set(num_threads=1):` restores, at
      its end, what was before.
    Raises:
      LookupError: There is no such option; nothing was set.
      TypeError: A value is of another type; nothing was set.
      ValueError: A value is out of range; nothing was set.
    """
    texts: dict[str, str | None] = {}
    for name, value in values.items():
        option = _find(name)
        if value is None:
            texts[option.variable] = None
            continue
        is_number = option.kind is float and type(value) is int
        if type(value) is not option.kind and not is_number:
            raise TypeError(
                f"mica.options: {name} is of type {option.kind.__name__}, got "
                f"{value!r}"
            )
        texts[option.variable] = option.write(value)
        option.read(option.write(value) or "")
    before = {variable: os.environ.get(variable) for variable in texts}
    for variable, text in texts.items():
        _write(variable, text)
    return Change(before)


def default_num_threads() -> int:
    """Threads that one op may use.

    Returns:
      The option `num_threads`, or what torch.get_num_threads() says.
    Raises:
      ValueError: MICA_NUM_THREADS is not a whole number above 0.
    """
    return int(get("num_threads"))


def default_num_streams() -> int:
    """Threads on which ops that don't need each other run at once.

    Returns:
      The option `num_streams`, by default 1.
    Raises:
      ValueError: MICA_NUM_STREAMS is not a whole number above 0.
    """
    return int(get("num_streams"))


def default_queue() -> bool:
    """Whether threads take steps, and pieces of wide ones, from a queue.

    Returns:
      The option `queue`. If False, ops run one after the other, each on
      threads of OpenMP.
    """
    return bool(get("queue"))


def _find(name: str) -> Option:
    if name not in OPTIONS:
        raise LookupError(
            f"mica.options: no option {name!r}, there are {', '.join(OPTIONS)}"
        )
    return OPTIONS[name]


def _write(variable: str, text: str | None) -> None:
    if text is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = text
