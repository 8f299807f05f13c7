"""Tests of check_sizes on small files of its own."""

from __future__ import annotations

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    path = Path(__file__).parent / "check_sizes"
    loader = SourceFileLoader("check_sizes", str(path))
    spec = importlib.util.spec_from_loader("check_sizes", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


check_sizes = _load()


def _cc_functions(text: str) -> list[tuple[str, int, int]]:
    return [tuple(f) for f in check_sizes.find_cc_functions(text)]


def test_functions_end_at_the_brace_in_their_column() -> None:
    text = """\
// A comment.
int Add(int a,
        int b) {
  if (a > b) {
    return a;
  }
  return b;
}

void Nothing() {}
"""
    assert _cc_functions(text) == [("Add", 2, 7)]


def test_methods_in_a_class_are_found() -> None:
    text = """\
namespace mica {
class Plan {
 public:
  explicit Plan(int n) : n_(n) {
    Check();
  }
  bool Holds() const {
    return true;
  }

 private:
  struct Part {
    int Size() const {
      return 1;
    }
  };
  int n_ = 0;
};

int Plan::Count() const {
  return n_;
}
}  // namespace mica
"""
    assert _cc_functions(text) == [
        ("Plan", 4, 3),
        ("Holds", 7, 3),
        ("Size", 13, 3),
        ("Plan::Count", 20, 3),
    ]


def test_tables_types_and_declarations_are_no_functions() -> None:
    text = """\
enum class Kind {
  kOne,
  kTwo,
};
constexpr const char* kWords[] = {
    "one",
    "two",
};
struct Word {
  int a = 0;
};
int Declared(int a,
             int b);
using Words = int;
template <typename T>
struct Boxed {
  T value;
};
"""
    assert _cc_functions(text) == []


def test_what_follows_a_long_list_of_bases_is_counted() -> None:
    text = """\
template <typename F>
void Visit(F&& visit) {
  visit();
}

Watch::Watch(int n)
    : a_(n),
      b_({.x = n,
          .y = n}) {
  Start();
}
"""
    assert _cc_functions(text) == [("Visit", 1, 4), ("Watch::Watch", 6, 6)]


@pytest.mark.parametrize(
    ("path", "is_exempt"),
    [
        ("python/capture/known/purity_words.h", True),
        ("python/interpreter/opcodes.cc", True),
        ("python/interpreter/opcodes_312.cc", True),
        ("python/mica/pieces/opcodes_311.py", False),
        ("python/interpreter/testing/programs.py", True),
        ("python/interpreter/versions_test.py", True),
        ("python/interpreter/opcode_stream.cc", False),
        ("python/capture/watch/state_watch.cc", False),
        ("python/mica/compile.py", False),
    ],
)
def test_tables_and_tests_may_be_long(path: str, is_exempt: bool) -> None:
    assert check_sizes.is_exempt(path) == is_exempt


def test_long_files_and_functions_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "python" / "capture"
    folder.mkdir(parents=True)
    body = "  Step();\n" * 59
    (folder / "run.cc").write_text(f"void Run() {{\n{body}}}\n")
    short = "  Step();\n" * 58
    (folder / "walk.cc").write_text(f"void Walk() {{\n{short}}}\n")
    (folder / "long.py").write_text("x = 1\n" * 401)
    (folder / "body.py").write_text("def f():\n" + "    x = 1\n" * 60)
    assert check_sizes.check_tree(tmp_path) == [
        "python/capture/run.cc:1: Run: 61 lines, more than 60",
        "python/capture/body.py:1: f: 61 lines, more than 60",
        "python/capture/long.py: 401 lines, more than 400",
    ]
