"""Drawings of what capture made: the Program, and what is known of state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from mica.programs.records import Claim

_ROW, _COLUMN, _HEIGHT, _MARGIN = 44, 176, 26, 12
_MAX_TEXT = 27
_COLOURS = {
    "input": "#cfe8cf",
    "variable": "#dfe3f5",
    "op": "#ffffff",
    "opaque": "#f6dcc6",
    "output": "#f5efc4",
    "effect": "#f3cfd4",
}


def draw_program(parts: Mapping[str, Any]) -> str:
    """Draws a Program.

    Args:
      parts: `Program.parts()`.
    Returns:
      An SVG document: inputs and variables above the ops that use them,
      outputs and updates below; the user's line is each op's tooltip.
    """
    drawing = _Drawing()
    row_of: dict[str, int] = {}
    box_of: dict[str, tuple[int, int]] = {}
    used = {name for op in parts["ops"] for name in _names(op["arguments"])}
    sources = [(name, name, "input") for name in parts["inputs"]]
    sources += [
        (value, name, "variable")
        for value, name in parts["variables"]
        if value in used
    ]
    for value, name, kind in sources:
        row_of[value] = 0
        box_of[value] = drawing.add_box(0, name, kind, name)
    for op in parts["ops"]:
        uses = [n for n in _names(op["arguments"]) if n in row_of]
        row = 1 + max((row_of[n] for n in uses), default=0)
        kind = "opaque" if op["is_opaque"] else "op"
        title = f"{op['op']} {', '.join(op['types'])} {op['line']}"
        box = drawing.add_box(row, op["op"].removeprefix("aten."), kind, title)
        for name in dict.fromkeys(uses):
            drawing.add_line(box_of[name], box)
        for name in op["results"]:
            row_of[name], box_of[name] = row, box
    last = max(row_of.values(), default=0) + 1
    ends = [(name, "result", "output") for name in parts["outputs"]]
    names = dict(parts["variables"])
    ends += [
        (value, f"sets {names.get(target, target)}", "effect")
        for target, value in parts["updates"]
    ]
    for value, text, kind in ends:
        box = drawing.add_box(last, text, kind, text)
        if value in box_of:
            drawing.add_line(box_of[value], box)
    return drawing.text()


def draw_state(guards: Sequence[Claim], effects: Sequence[Claim]) -> str:
    """Draws what a record knows of the objects around it.

    Args:
      guards: What it holds to.
      effects: What a hit changes.
    Returns:
      An SVG document: a tree of paths, each guard at its object, with its line
      and what it protects as its tooltip; effects in red.
    """
    drawing = _Drawing()
    boxes: dict[str, tuple[int, int]] = {}
    for guard, kind in [
        *[(guard, "variable") for guard in guards],
        *[(effect, "effect") for effect in effects],
    ]:
        text = guard.text
        path = text.split(" ")[1 if kind == "effect" else 0]
        above = None
        for row, prefix in enumerate(_prefixes(path)):
            if prefix not in boxes:
                boxes[prefix] = drawing.add_box(row, prefix, "input", prefix)
                if above is not None:
                    drawing.add_line(above, boxes[prefix])
            above = boxes[prefix]
        row = len(list(_prefixes(path)))
        box = drawing.add_box(
            row, text, kind, f"{guard}; protects: {guard.protects}"
        )
        if above is not None:
            drawing.add_line(above, box)
    return drawing.text()


def _names(arguments: Any) -> Iterator[str]:
    for _, argument in arguments:
        for part in argument if isinstance(argument, list) else [argument]:
            if isinstance(part, tuple) and part[0] == "%":
                yield part[1]


def _prefixes(path: str) -> Iterator[str]:
    """The objects on the way: "a", "a.b" of "a.b.c"."""
    words = path.split(".")[:-1]
    for end in range(1, len(words) + 1):
        yield ".".join(words[:end])


class _Drawing:
    """Boxes in rows, with lines from one row to lower ones."""

    def __init__(self) -> None:
        self._boxes: list[str] = []
        self._lines: list[str] = []
        self._widths: dict[int, int] = {}

    def add_box(
        self, row: int, text: str, kind: str, title: str
    ) -> tuple[int, int]:
        """Adds a box at the end of its row; where its middle is."""
        column = self._widths.get(row, 0)
        self._widths[row] = column + 1
        x, y = _MARGIN + column * _COLUMN, _MARGIN + row * (_ROW + _HEIGHT)
        short = text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
        self._boxes.append(
            f"<g><title>{escape(title)}</title>"
            f'<rect x="{x}" y="{y}" width="{_COLUMN - 10}" height="{_HEIGHT}" '
            f'rx="4" fill="{_COLOURS[kind]}" stroke="#555"/>'
            f'<text x="{x + 6}" y="{y + 17}">{escape(short)}</text></g>'
        )
        return x + (_COLUMN - 10) // 2, y

    def add_line(self, top: tuple[int, int], bottom: tuple[int, int]) -> None:
        """Adds a line from the foot of a box to the head of another."""
        x, y = top[0], top[1] + _HEIGHT
        bend = (bottom[1] - y) // 2
        self._lines.append(
            f'<path d="M{x} {y} C{x} {y + bend} {bottom[0]} '
            f'{bottom[1] - bend} {bottom[0]} {bottom[1]}"/>'
        )

    def text(self) -> str:
        """The document."""
        width = 2 * _MARGIN + _COLUMN * max(self._widths.values(), default=1)
        rows = max(self._widths, default=0) + 1
        height = 2 * _MARGIN + rows * (_ROW + _HEIGHT)
        lines = "\n".join(self._lines)
        boxes = "\n".join(self._boxes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{height}" font-family="monospace" font-size="11">\n'
            f'<g fill="none" stroke="#999">\n{lines}\n</g>\n{boxes}\n</svg>\n'
        )
