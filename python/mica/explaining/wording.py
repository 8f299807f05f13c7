"""How counts, times and reasons are worded."""

from __future__ import annotations

from collections import Counter

from mica import _mica

# Of a line of the summary; details have all of it.
_LONGEST = 240


def why_aten(op: str, exact: bool, inaccuracy: str) -> str:
    """Why an op runs by ATen's kernel."""
    if op.startswith("torch.lazy."):
        return "Mica has no kernel for lazily conjugated or negated tensors"
    if op.startswith("torch.") and exact:
        return "exact leaves to ATen what computes"
    if op.startswith("torch.") and inaccuracy:
        return f"by Mica's, {inaccuracy}"
    if op.removeprefix("torch.") in _mica.registered_ops():
        return "Mica has no kernel for these types or options"
    return "Mica has no kernel for them"


def counts(names: Counter[str], most: int | None = None) -> str:
    """Names by how often they occur, at most `most` of them."""
    listed = [f"{name} {count}" for name, count in names.most_common(most)]
    if len(names) > len(listed):
        listed.append(f"{len(names) - len(listed)} more kinds")
    return ", ".join(listed)


def one_line(text: str) -> str:
    """The text without its line ends, and cut if it is too long to be read."""
    line = " ".join(text.split("\n"))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def many(count: int, what: str) -> str:
    """Such as "1,338 guards"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def time_of(seconds: float) -> str:
    """Such as "4.1 µs"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def bytes_of(count: float) -> str:
    """Such as "64.1 KiB"."""
    if count < 1024:
        return f"{count} bytes"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.3g} {unit}"
    return f"{count / 1024:.3g} GiB"
