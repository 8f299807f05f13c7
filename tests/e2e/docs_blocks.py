"""Code blocks of the pages, and what running them prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mica

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^ {0,3}(`{3,})(.*)$")
_PRINTS = re.compile(r"# prints: (.*)$", re.MULTILINE)

# Of a block's language what is done with it; of the rest nothing.
_SHOWN = {"text", "ebnf", "output"}


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
      page: The page, relative to the root.
      line: The line of its first line of text, from 1.
      language: The word behind the fence.
      text: Its lines, with the last line's end.
    """

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """All pages of the tree, relative to its root."""
    return [file for file in files() if file.endswith(".md")]


def files() -> list[str]:
    """All files of the tree but for what is built, relative to its root."""
    found = []
    for folder, below, names in os.walk(ROOT):
        below[:] = sorted(
            name for name in below if not name.startswith((".", "build", "__"))
        )
        found += [os.path.join(folder, name) for name in sorted(names)]
    return [os.path.relpath(file, ROOT) for file in found]


def blocks_of(page: str, text: str) -> list[Block]:
    """The page's blocks, in order.

    Raises:
      ValueError: A block has no end.
    """
    found: list[Block] = []
    fence, language, begin = "", "", 0
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _FENCE.match(line)
        if not fence and match:
            fence, language, begin = match[1], match[2].strip(), number + 1
            lines = []
        elif fence and match and match[1] == fence and not match[2].strip():
            body = "".join(f"{text}\n" for text in lines)
            found.append(Block(page, begin, language, body))
            fence = ""
        elif fence:
            lines.append(line)
    if fence:
        raise ValueError(f"{page}:{begin}: a block without an end")
    return found


def expects(block: Block, behind: Block | None) -> str | None:
    """What the page says that the block prints; None if it says nothing."""
    if behind is not None and behind.language == "output":
        return behind.text
    told = [match[1] for match in _PRINTS.finditer(block.text)]
    return "".join(f"{line}\n" for line in told) if told else None


def is_like(printed: str, wanted: str) -> bool:
    """Whether it was printed; an ellipsis stands for anything."""

    def plain(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip().splitlines())

    parts = [re.escape(part) for part in plain(wanted).split("…")]
    pattern = re.compile(".*?".join(parts), re.DOTALL)
    return pattern.fullmatch(plain(printed)) is not None


class Runner:
    """Runs the blocks of one page in order, Python's in one namespace."""

    def __init__(self, commands: dict[str, Path]) -> None:
        """`commands`: where to find programs by the names that pages use."""
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._commands = commands

    def run(self, block: Block) -> str | None:
        """What it prints; None if it can't run here.

        Raises:
          AssertionError: The language is unknown, or a command failed.
        """
        if block.language in _SHOWN:
            return ""
        run = getattr(self, f"_run_{block.language}", None)
        assert run is not None, f"{block}: no language {block.language!r}"
        printed: str | None = run(block)
        return printed

    def _run_python(self, block: Block) -> str:
        # Lines are the page's in errors and in what explain tells.
        text = "\n" * (block.line - 1) + block.text
        code = compile(text, str(ROOT / block.page), "exec", dont_inherit=True)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, self._names)
        return out.getvalue()

    def _run_mica(self, block: Block) -> str:
        program = str(mica.Program.parse(block.text))
        assert program == block.text, f"{block}: not in canonical form"
        return ""

    def _run_schedule(self, block: Block) -> str:
        schedule = str(mica.Schedule.parse(block.text))
        assert schedule == block.text, f"{block}: not in canonical form"
        return ""

    def _run_cpp(self, block: Block) -> str:
        return self._run_c(block)

    def _run_c(self, block: Block) -> str:
        sources = [
            *(ROOT / "tools").glob("*.cc"),
            *(ROOT / "examples").glob("c*/*.c*"),
        ]
        assert any(block.text in file.read_text() for file in sources), (
            f"{block}: no part of a file in tools/ or examples/, which would "
            "be built"
        )
        return ""

    def _run_sh(self, block: Block) -> str | None:
        used = [name for name in self._commands if name in block.text]
        places = [str(self._commands[name]).split()[0] for name in used]
        if not all(map(os.path.exists, places)):
            return None
        text = block.text
        for name in used:
            text = text.replace(name, str(self._commands[name]))
        done = subprocess.run(
            ["bash", "-euc", text],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        )
        assert done.returncode == 0, f"{block}: {done.stderr}"
        return done.stdout


def named_paths(text: str) -> Iterator[str]:
    """Paths that a page names, in links and between backticks."""
    for match in re.finditer(r"\]\(([^)\s]+)\)", text):
        if "://" not in match[1] and not match[1].startswith("#"):
            yield match[1]
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for quoted in re.finditer(r"`([^`\n]+)`", plain):
        yield from re.findall(
            r"(?<![\w./*{<=-])[\w./-]+\.(?:py|cc|h|md|sh)(?![\w*(])", quoted[1]
        )


def headings(text: str) -> set[str]:
    """The anchors that a page's headings make."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.*)$", plain, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in found
    }
