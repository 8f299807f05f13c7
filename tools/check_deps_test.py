"""check_deps refuses backward arrows and misplaced external headers."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    path = Path(__file__).with_name("check_deps")
    loader = importlib.machinery.SourceFileLoader("check_deps", str(path))
    spec = importlib.util.spec_from_loader("check_deps", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


check_deps = _load()


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("framework/ir/program.cc", "framework/tensor/dtype.h"),
        ("ops/math/matmul.cc", "framework/op/op_def.h"),
        ("kernels/cpu/matmul.cc", "ops/math/matmul_attributes.h"),
        ("kernels/cpu/matmul.cc", "dnnl.h"),
        ("analysis/plan/plan.cc", "kernels/all.h"),
        ("analysis/plan/plan.cc", "analysis/passes/rewrite.h"),
        ("analysis/plan/plan.cc", "analysis/plan/planner.h"),
        ("executor/run/run.h", "analysis/plan/plan.h"),
        ("python/bridge/module.cc", "executor/run/run.h"),
        ("python/torch_side/opaque/opaque.cc", "ATen/core/Tensor.h"),
        ("python/capture/record/record.cc", "python/capture/watch/watch.h"),
        ("python/capture/record/record.cc", "python/interpreter/stream.h"),
        ("python/interpreter/cpython.cc", "python/interpreter/stream.h"),
        ("python/interpreter/cpython.cc", "Python.h"),
        ("tools/mica_bench.cc", "executor/run/run.h"),
        ("tests/property/random_test.cc", "python/process/plans.h"),
        ("kernels/cpu/matmul_test.cc", "ops/all.h"),
        ("framework/ir/program.cc", "absl/status/status.h"),
        ("framework/ir/program.cc", "vector"),
    ],
)
def test_allows_what_follows_the_arrows(path: str, header: str) -> None:
    assert check_deps.check_include(path, header) is None


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("framework/ir/program.cc", "ops/all.h"),
        ("framework/ir/program.cc", "executor/run/run.h"),
        ("ops/math/matmul.cc", "kernels/all.h"),
        ("kernels/cpu/matmul.cc", "ops/all.h"),
        ("kernels/cpu/matmul.cc", "analysis/plan/plan.h"),
        ("analysis/plan/plan.cc", "executor/run/run.h"),
        ("analysis/streams/hazards.cc", "analysis/plan/plan.h"),
        ("analysis/passes/rewrite.cc", "analysis/fuse/regions.h"),
        ("analysis/elsewhere/a.cc", "analysis/passes/rewrite.h"),
        ("executor/run/run.cc", "python/process/plans.h"),
        ("executor/run/run.cc", "tools/generate.h"),
        ("python/bridge/module.cc", "tools/generate.h"),
        ("python/interpreter/cpython.cc", "python/capture/record/record.h"),
        ("python/interpreter/cpython.cc", "framework/base/status.h"),
        ("python/interpreter/cpython.cc", "ATen/core/Tensor.h"),
        ("python/bridge/module.cc", "ATen/core/Tensor.h"),
        ("python/capture/watch/watch.cc", "python/capture/serve/compiled.h"),
        ("python/capture/values/a.cc", "python/capture/guards/a.h"),
        ("python/elsewhere/a.cc", "python/capture/guards/a.h"),
        ("tools/mica_bench.cc", "tests/fuzz/seeds.h"),
        ("analysis/lower/tape.cc", "ATen/core/Tensor.h"),
        ("analysis/lower/tape_test.cc", "torch/torch.h"),
        ("executor/run/run.cc", "Python.h"),
        ("tools/mica_bench.cc", "nanobind/nanobind.h"),
        ("kernels/reference/matmul.cc", "dnnl.h"),
        ("analysis/select/select.cc", "libxsmm.h"),
        ("framework/ir/program.cc", "framework/../ops/all.h"),
    ],
)
def test_refuses_what_goes_against_them(path: str, header: str) -> None:
    assert check_deps.check_include(path, header) is not None


def test_reports_file_line_and_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "framework").mkdir()
    (tmp_path / "framework" / "a.h").write_text(
        '#pragma once\n  #  include "ops/all.h"\n'
    )
    assert check_deps.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "framework/a.h:2: ops/all.h: framework may not see ops" in out


def test_this_tree_has_no_violation() -> None:
    root = Path(__file__).parent.parent
    assert check_deps.check_tree(root) == []


def _write_package(root: Path, modules: dict[str, str]) -> list[str]:
    for name, text in modules.items():
        file = root / "python" / "mica" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found: list[str] = check_deps.check_package(root)
    return found


def test_refuses_modules_that_import_each_other(tmp_path: Path) -> None:
    problems = _write_package(
        tmp_path,
        {
            "one.py": "from mica.two import f",
            "two.py": "def f():\n    from mica import three",
            "three.py": "import mica.one",
        },
    )
    assert problems == [
        "python/mica: a circle: mica.one -> mica.two -> mica.three -> mica.one"
    ]


def test_refuses_a_room_of_the_package_that_sees_too_much(
    tmp_path: Path,
) -> None:
    problems = _write_package(
        tmp_path,
        {
            "compile.py": "from mica.programs.program import Program",
            "errors.py": "",
            "programs/__init__.py": "",
            "programs/program.py": "from mica.errors import E",
            "programs/late.py": "def f():\n    from mica.compile import f",
        },
    )
    assert problems == [
        "python/mica/programs/late.py:2: mica.compile: mica.programs may not "
        "see mica.compile"
    ]


def test_rooms_of_python_stand_in_an_order() -> None:
    below: set[str] = set()
    for room, seen in check_deps._CXX_ROOMS.items():
        assert seen <= below, room
        below.add(room)
