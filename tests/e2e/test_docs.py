"""What the pages show runs, prints what they say, and names what there is."""

from __future__ import annotations

import importlib.util
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from e2e.docs_blocks import (
    ROOT,
    Runner,
    blocks_of,
    expects,
    files,
    headings,
    is_like,
    named_paths,
    pages,
)

import mica
from mica import _mica

PAGES = pages()

# Files of users, in examples.
EXAMPLES = {"model.py", "m.py", "script.py", "train.py", "program.py"}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Programs that blocks call, by the words that they use for them."""
    script = tmp_path_factory.mktemp("bin") / "mica"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mica "$@"\n')
    script.chmod(0o755)
    tools = {
        f"build/bin/{name}": ROOT / "build" / "bin" / name
        for name in (
            "mica_generate",
            "mica_run",
            "mica_train",
            "mica_bench",
            "mica_opt",
        )
    }
    # A word that begins a command, so that no other one is meant.
    words = ("doctor", "explain", "import", "run", "cache")
    own = {f"mica {word}": Path(f"{script} {word}") for word in words}
    draw = {"tools/draw_schedule.py": ROOT / "tools" / "draw_schedule.py"}
    python = {".venv/bin/python": Path(sys.executable)}
    return {**tools, **own, **draw, **python}


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_and_print_what_the_page_says(
    page, commands, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for folder in ("build", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    torch.manual_seed(0)
    blocks = blocks_of(page, (ROOT / page).read_text())
    runner = Runner(commands)
    try:
        for block, behind in pairwise([*blocks, None]):
            printed = runner.run(block)
            wanted = expects(block, behind)
            if block.language in ("python", "sh") and wanted is not None:
                if printed is None:
                    continue  # A tool isn't built.
                assert is_like(printed, wanted), f"{block} prints:\n{printed}"
    finally:
        mica.reset()


@pytest.mark.parametrize("page", PAGES)
def test_paths_that_a_page_names_are_there(page):
    there = files()
    folder = (ROOT / page).parent
    missing = []
    text = (ROOT / page).read_text()
    anchors = re.findall(r"\]\(#([^)]+)\)", text)
    assert set(anchors) <= headings(text)
    for path in named_paths(text):
        path, _, anchor = path.partition("#")
        if path in EXAMPLES or path.startswith(("build", ".venv")):
            continue
        places = [folder / path, ROOT / path, ROOT / "python" / path]
        found = [place for place in places if place.exists()]
        found += [ROOT / f for f in there if f"/{f}".endswith(f"/{path}")]
        if not found:
            missing.append(path)
        elif anchor and anchor not in headings(found[0].read_text()):
            missing.append(f"{path}#{anchor}")
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_names_of_mica_that_a_page_uses_are_there(page):
    ops = _mica.registered_ops()
    there = {Path(file).name for file in files()}
    unknown = set()
    for name in re.findall(r"\bmica\.(\w+)", (ROOT / page).read_text()):
        is_op = any(op.startswith(f"mica.{name}") for op in ops)
        is_module = importlib.util.find_spec(f"mica.{name}") is not None
        is_file = f"mica.{name}" in there
        if not (is_op or is_module or is_file or hasattr(mica, name)):
            unknown.add(name)
    assert unknown == set()


@pytest.mark.parametrize(
    ("printed", "wanted", "want"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a  \n", "a\n", True),
        ("took 3.1 s\n", "took … s\n", True),
        ("a\nb\nc\n", "a\n…\nc\n", True),
        ("a\nb\n", "a\n", False),
        ("a\n", "b\n", False),
        ("", "a\n", False),
    ],
)
def test_an_output_is_compared_but_for_ellipses(printed, wanted, want):
    assert is_like(printed, wanted) is want


@pytest.mark.parametrize(
    "text",
    [
        "```\nx\n```\n",
        "```cobol\nx\n```\n",
        "```python\nraise RuntimeError\n```\n",
        "```mica\nprogram @f(%x: f32[2]) {\n  return %y\n}\n```\n",
        "```sh\nfalse\n```\n",
        "```python\nx = 1\n",
    ],
)
def test_a_block_that_cannot_run_fails(text):
    with pytest.raises(Exception):  # noqa: B017, PT011
        for block in blocks_of("page.md", text):
            Runner({}).run(block)


def test_what_a_block_prints_is_told_by_comments_too():
    block = blocks_of("p.md", "```python\nprint(1)  # prints: 1\n```\n")[0]
    assert expects(block, None) == "1\n"
    assert Runner({}).run(block) == "1\n"


def test_paths_are_found_in_links_and_between_backticks():
    text = "[a](b/c.md#d), `e/f.cc`, `x.py g/h.py`, [web](https://m.org/n.py)"
    assert list(named_paths(text)) == ["b/c.md#d", "e/f.cc", "x.py", "g/h.py"]
    assert headings("# A page: of `x`\n## B\n") == {"a-page-of-x", "b"}


def test_the_glossary_has_each_word_that_a_folder_defines():
    page = (ROOT / "docs" / "glossary.md").read_text()
    known = re.findall(r"^\| \*\*(.+?)\*\* \|", page, re.MULTILINE)
    assert known == sorted(known, key=str.lower)
    words = {word.lower() for word in known}
    missing = set()
    for readme in ROOT.glob("*/README.md"):
        text = readme.read_text()
        section = re.search(r"^## Words$(.*?)(?=^## )", text, re.M | re.S)
        for word in re.findall(r"\*\*(.+?)\*\*", section[1] if section else ""):
            name = re.sub(r"\s+", " ", word).lower()
            if not {name, name.removesuffix("s")} & words:
                missing.add(name)
    assert missing == set()
