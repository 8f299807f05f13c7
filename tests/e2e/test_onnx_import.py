"""ONNX files and archives of torch.export, imported, compiled and written."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import mica
from mica.cli import main

onnx = pytest.importorskip("onnx", reason="ONNX files need the package onnx")
pytest.importorskip("onnxscript", reason="torch.onnx.export needs onnxscript")

TOOLS = Path(__file__).parents[2] / "tools"
DIM = torch.export.Dim


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        h = torch.relu(self.bn1(self.conv1(x)))
        h = torch.relu(self.bn2(self.conv2(h)) + x)
        h = nn.functional.max_pool2d(h, 3, 2, 1)
        return self.head(h.mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, ids):
        x = self.embed(ids)
        n, length, _ = x.shape
        q, k, v = (
            t.reshape(n, length, 2, 8).transpose(1, 2)
            for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + y.transpose(1, 2).reshape(n, length, 16)
        return x + self.down(nn.functional.gelu(self.up(x)))


def mlp():
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))


MODELS = {
    "mlp": (mlp, lambda n: torch.randn(n, 6), {0: "batch"}),
    "block": (Block, lambda n: torch.randn(n, 8, 10, 10), {0: "batch"}),
    "transformer": (
        Transformer,
        lambda n: torch.randint(20, (n, 3 + n)),
        {0: "batch", 1: "length"},
    ),
}


def make(name):
    torch.manual_seed(0)
    build, inputs, dims = MODELS[name]
    return build().eval(), inputs, dims


def to_onnx(model, x, dims, opset=20):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.onnx.export(
            model,
            (x,),
            dynamo=True,
            opset_version=opset,
            dynamic_shapes=({d: DIM(s) for d, s in dims.items()},),
            verbose=False,
        )
    return made.model_proto


def graph_of(nodes, inputs, outputs, opset=20, **more):
    helper = onnx.helper
    graph = helper.make_graph(nodes, "graph", inputs, outputs, **more)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets)


def tensor(name, *sizes, kind=1):
    return onnx.helper.make_tensor_value_info(name, kind, sizes)


def node(op, inputs, outputs, **attributes):
    return onnx.helper.make_node(op, inputs, outputs, **attributes)


# Models


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("opset", [18, 20, 23])
def test_a_model_of_torch_is_one_capture_for_all_its_sizes(name, opset):
    model, inputs, dims = make(name)
    module = mica.from_onnx(to_onnx(model, inputs(3), dims, opset))
    compiled = mica.compile(module, fullgraph=True)
    with torch.no_grad():
        for size in (2, 3, 4, 5, 2):
            x = inputs(size)
            torch.testing.assert_close(compiled(x), model(x))
    told = mica.explain(compiled)
    assert (told.captures, told.hits, len(told.graphs)) == (2, 3, 1)
    assert told.refusals == []


@pytest.mark.parametrize("name", MODELS)
def test_an_archive_is_one_capture_for_all_its_sizes(name, tmp_path):
    model, inputs, dims = make(name)
    shapes = ({d: DIM(s, min=2, max=50) for d, s in dims.items()},)
    program = torch.export.export(model, (inputs(3),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    module = mica.from_exported(tmp_path / "model.pt2")
    compiled = mica.compile(module, fullgraph=True)
    with torch.no_grad():
        for size in (2, 3, 4, 5, 2):
            x = inputs(size)
            torch.testing.assert_close(compiled(x), model(x))
    told = mica.explain(compiled)
    assert (told.captures, told.hits, len(told.graphs)) == (2, 3, 1)


def test_spelled_out_operators_become_torchs_own():
    model, inputs, dims = make("transformer")
    code = mica.from_onnx(to_onnx(model, inputs(3), dims, 18)).code
    assert code.count("gelu(") == code.count("products(") == 1
    assert "softmax(" not in code and "erf(" not in code


def test_a_mask_that_hides_all_keys_gives_zeros_as_onnx_says():
    # softmax of a row of -inf is NaN, which the graph makes zero.
    nodes = [
        node("MatMul", ["q", "k"], ["s"]),
        node("Add", ["s", "mask"], ["m"]),
        node("Softmax", ["m"], ["p"], axis=-1),
        node("IsNaN", ["p"], ["bad"]),
        node("Where", ["bad", "zero", "p"], ["safe"]),
        node("MatMul", ["safe", "v"], ["y"]),
        node("Transpose", ["k0"], ["k"], perm=[0, 1, 3, 2]),
    ]
    nodes.insert(0, nodes.pop())
    zero = onnx.helper.make_tensor("zero", 1, [], [0.0])
    ins = [tensor(n, 1, 2, 4, 8) for n in ("q", "k0", "v")]
    ins.append(tensor("mask", 4, 4))
    model = graph_of(nodes, ins, [tensor("y", 1, 2, 4, 8)], initializer=[zero])
    module = mica.from_onnx(model)
    assert "products(" in module.code
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    mask = torch.zeros(4, 4)
    mask[1] = -torch.inf
    want = torch.softmax(q @ k.mT + mask, -1).nan_to_num(0.0) @ v
    compiled = mica.compile(module)
    for _ in range(2):
        torch.testing.assert_close(compiled(q, k, v, mask), want)


# Control flow and shapes


def test_shapes_are_computed_in_python():
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["length"]),
        node("Mul", ["length", "two"], ["twice"]),
        node("Unsqueeze", ["twice", "axes"], ["row"]),
        node("Concat", ["minus", "row"], ["sizes"], axis=0),
        node("Reshape", ["x", "sizes"], ["y"]),
    ]
    numbers = {"one": (1, []), "two": (2, []), "axes": (0, [1])}
    numbers["minus"] = (-1, [1])
    tensors = [
        onnx.helper.make_tensor(name, 7, dims, [value])
        for name, (value, dims) in numbers.items()
    ]
    model = graph_of(
        nodes,
        [tensor("x", "n", "m")],
        [tensor("y", None, None)],
        initializer=tensors,
    )
    compiled = mica.compile(mica.from_onnx(model), fullgraph=True)
    for n, m in ((4, 3), (6, 3), (8, 3), (8, 5), (6, 7)):
        x = torch.randn(n, m)
        assert torch.equal(compiled(x), x.reshape(-1, 2 * m))
    told = mica.explain(compiled)
    assert len(told.graphs) == 1 and told.hits >= 2


def test_loops_go_as_often_as_a_size_says():
    body = onnx.helper.make_graph(
        [
            node("Gather", ["x", "i"], ["row"]),
            node("Add", ["sum", "row"], ["more"]),
            node("Identity", ["go"], ["on"]),
            node("Identity", ["more"], ["shown"]),
        ],
        "body",
        [tensor("i", kind=7), tensor("go", kind=9), tensor("sum", 4)],
        [tensor("on", kind=9), tensor("more", 4), tensor("shown", 4)],
    )
    nodes = [
        node("Shape", ["x"], ["rows"], start=0, end=1),
        node("Squeeze", ["rows"], ["count"]),
        node("Loop", ["count", "", "zeros"], ["last", "all"], body=body),
    ]
    zeros = onnx.helper.make_tensor("zeros", 1, [4], [0.0] * 4)
    model = graph_of(
        nodes,
        [tensor("x", "n", 4)],
        [tensor("last", 4), tensor("all", "n", 4)],
        initializer=[zeros],
    )
    compiled = mica.compile(mica.from_onnx(model))
    with torch.no_grad():
        for n in (3, 4, 5, 6):
            x = torch.randn(n, 4)
            last, rows = compiled(x)
            torch.testing.assert_close(last, x.sum(0))
            torch.testing.assert_close(rows, x.cumsum(0))
    told = mica.explain(compiled)
    assert (told.captures, told.hits) == (2, 2)


def test_a_models_own_functions_are_run():
    helper = onnx.helper
    function = helper.make_function(
        "own",
        "Scaled",
        ["x"],
        ["y"],
        [
            node("Constant", [], ["c"]),
            node("Mul", ["x", "c"], ["y"]),
        ],
        [helper.make_opsetid("", 20)],
        ["by"],
    )
    attribute = function.node[0].attribute.add()
    attribute.name, attribute.ref_attr_name = "value_float", "by"
    attribute.type = onnx.AttributeProto.FLOAT
    model = graph_of(
        [node("Scaled", ["x"], ["y"], domain="own", by=3.0)],
        [tensor("x", 2)],
        [tensor("y", 2)],
    )
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    assert mica.from_onnx(model)(torch.ones(2)).tolist() == [3.0, 3.0]


# What is wrong


def test_all_unknown_nodes_are_named_at_once():
    nodes = [
        node("Strange", ["x"], ["a"], domain="far", name="first"),
        node("Strange", ["a"], ["b"], domain="far", name="second"),
        node("StringNormalizer", ["b"], ["y"], name="third"),
    ]
    model = graph_of(nodes, [tensor("x", 2)], [tensor("y", 2)])
    model.opset_import.append(onnx.helper.make_opsetid("far", 3))
    with pytest.raises(NotImplementedError) as raised:
        mica.from_onnx(model)
    text = str(raised.value)
    assert "Strange of far 3, 2 nodes such as 'first'" in text
    assert "StringNormalizer of ai.onnx 20, 1 node such as 'third'" in text


def test_attributes_and_opsets_from_the_future_are_named():
    odd = node("Relu", ["x"], ["y"], name="odd", shape=3)
    model = graph_of([odd], [tensor("x", 2)], [tensor("y", 2)])
    with pytest.raises(NotImplementedError, match="'odd', with attributes"):
        mica.from_onnx(model)
    model = graph_of(
        [node("Relu", ["x"], ["y"])], [tensor("x", 2)], [tensor("y", 2)], 99
    )
    with pytest.raises(NotImplementedError, match="is the newest"):
        mica.from_onnx(model)


def external(location, length=16):
    weight = onnx.TensorProto(name="weight", data_type=1, dims=[4])
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("length", str(length))):
        weight.external_data.add(key=key, value=value)
    model = graph_of(
        [node("Add", ["x", "weight"], ["y"])],
        [tensor("x", 4)],
        [tensor("y", 4)],
    )
    model.graph.initializer.append(weight)
    return model


def test_names_in_a_file_are_no_code(tmp_path):
    from onnx import TensorProto, helper

    there = tmp_path / "there"
    call = f"__import__('pathlib').Path({str(there)!r}).touch()"
    x, y = (f"{name}\n    {call}" for name in "xy")

    def model(node):
        size = f"n']; {call}; ['"
        graph = helper.make_graph(
            [node],
            f"g\n{call}",
            [helper.make_tensor_value_info(x, TensorProto.FLOAT, [size])],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
        )
        opsets = [helper.make_opsetid("", 18)]
        return helper.make_model(graph, opset_imports=opsets)

    relu = helper.make_node("Relu", [x], [y], name=f"relu\n    {call} #")
    got = mica.from_onnx(model(relu))(torch.tensor([-1.0, 2.0]))
    assert got.tolist() == [0.0, 2.0]
    for op in ("Relu", "Shape"):
        attributes = {f"end={call}, start": 0}
        node = helper.make_node(op, [x], [y], **attributes)
        with pytest.raises(NotImplementedError, match="with attributes end="):
            mica.from_onnx(model(node))
    assert not there.exists()


def test_weights_beside_the_model_are_read_and_none_elsewhere(tmp_path):
    inside = tmp_path / "model"
    inside.mkdir()
    torch.arange(4.0).numpy().tofile(inside / "weights")
    torch.arange(4.0).numpy().tofile(tmp_path / "secret")
    path = inside / "model.onnx"
    path.write_bytes(external("weights").SerializeToString())
    x = torch.ones(4)
    assert mica.from_onnx(path)(x).tolist() == [1.0, 2.0, 3.0, 4.0]
    (inside / "link").symlink_to(tmp_path / "secret")
    for where in ("../secret", str(tmp_path / "secret"), "link", ""):
        path.write_bytes(external(where).SerializeToString())
        with pytest.raises(ValueError, match="initializer 'weight' lies in"):
            mica.from_onnx(path)
    for length in (12, 400):
        path.write_bytes(external("weights", length).SerializeToString())
        with pytest.raises(ValueError, match="initializer 'weight' has"):
            mica.from_onnx(path)
    path.write_bytes(external("none").SerializeToString())
    with pytest.raises(ValueError, match="initializer 'weight' lies in"):
        mica.from_onnx(path)


def test_damaged_files_are_named(tmp_path):
    model, inputs, dims = make("mlp")
    whole = to_onnx(model, inputs(3), dims).SerializeToString()
    path = tmp_path / "model.onnx"
    for text in (b"", b"no model", whole[: len(whole) // 2]):
        path.write_bytes(text)
        with pytest.raises(ValueError, match=r"model\.onnx"):
            mica.from_onnx(path)
    with pytest.raises(FileNotFoundError):
        mica.from_onnx(tmp_path / "none.onnx")
    with pytest.raises(TypeError, match="wants a path, bytes or"):
        mica.from_onnx(3)
    loose = graph_of(
        [node("Relu", ["z"], ["y"], name="loose")],
        [tensor("x", 2)],
        [tensor("y", 2)],
    )
    with pytest.raises(ValueError, match="Relu 'loose' reads 'z'"):
        mica.from_onnx(loose)
    short = graph_of(
        [node("Add", ["x", "w"], ["y"])], [tensor("x", 2)], [tensor("y", 2)]
    )
    short.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=b"1")
    with pytest.raises(ValueError, match="initializer 'w' is damaged"):
        mica.from_onnx(short)
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(ValueError, match=r"model\.onnx is no archive"):
        mica.from_exported(path)


def test_arguments_are_held_to_what_the_file_declares():
    model, inputs, dims = make("block")
    module = mica.from_onnx(to_onnx(model, inputs(3), dims))
    with pytest.raises(ValueError, match=r"wants float32\[batch, 8, 10, 10\]"):
        module(torch.randn(3, 7, 10, 10))
    with pytest.raises(TypeError, match="wants float32.*got float64"):
        module(torch.randn(3, 8, 10, 10).double())
    with pytest.raises(TypeError, match="wants a tensor.*got int"):
        module(3)
    shapes = ({0: DIM("batch", min=2, max=5)},)
    program = torch.export.export(model, (inputs(3),), dynamic_shapes=shapes)
    module = mica.from_exported(program)
    with pytest.raises(ValueError, match="wants 2 or more, 5 at most, got 6"):
        module(torch.randn(6, 8, 10, 10))
    with pytest.raises(ValueError, match="wants 8 in dim 1, got 7"):
        module(torch.randn(3, 7, 10, 10))


# Archives and the command


class Nested(nn.Module):
    def forward(self, given, factor, *, rows):
        return {"sum": given["x"] + rows[0] * factor, "rows": [rows[1] * 2]}


def test_nested_arguments_and_constants_of_an_archive():
    def arguments(n):
        return ({"x": torch.randn(n, 2)}, 3), [torch.randn(n, 2)] * 2

    args, rows = arguments(4)
    some = {0: DIM("n")}
    program = torch.export.export(
        Nested(),
        args,
        {"rows": rows},
        dynamic_shapes={
            "given": {"x": some},
            "factor": None,
            "rows": [some, some],
        },
    )
    module = mica.from_exported(program)
    compiled = mica.compile(module)
    for n in (3, 4, 5):
        args, rows = arguments(n)
        want, got = Nested()(*args, rows=rows), compiled(*args, rows=rows)
        torch.testing.assert_close(got, want)
    assert mica.explain(compiled).hits == 1
    with pytest.raises(ValueError, match="exported for 3, got 4"):
        module(args[0], 4, rows=rows)
    with pytest.raises(ValueError, match="wants a list of 2, got 1"):
        module(*args, rows=rows[:1])
    with pytest.raises(ValueError, match="lacks 'x'"):
        module({"y": rows[0]}, 3, rows=rows)


def written(tmp_path, name, kind):
    model, inputs, dims = make(name)
    path = tmp_path / f"model.{kind}"
    if kind == "onnx":
        path.write_bytes(to_onnx(model, inputs(3), dims).SerializeToString())
    else:
        shapes = ({d: DIM(s) for d, s in dims.items()},)
        program = torch.export.export(
            model, (inputs(3),), dynamic_shapes=shapes
        )
        torch.export.save(program, path)
    return model, inputs, path


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_the_command_writes_a_folder_for_all_sizes(
    tmp_path, capsys, name, kind
):
    model, inputs, path = written(tmp_path, name, kind)
    out = str(tmp_path / "out")
    assert main(["import", str(path), "--out", out]) == 0
    assert capsys.readouterr().out.startswith("in ")
    loaded = mica.load(out)
    with torch.no_grad():
        for size in (2, 7):
            x = inputs(size)
            torch.testing.assert_close(loaded(x), model(x))


def test_the_command_fixes_sizes_that_it_is_told(tmp_path, capsys):
    model, inputs, path = written(tmp_path, "transformer", "onnx")
    out = str(tmp_path / "out")
    words = ["import", str(path), "--out", out]
    assert main([*words, "--size", "length=6"]) == 0
    assert "in  ids: i64[batch,6]" in capsys.readouterr().out
    loaded = mica.load(out)
    x = inputs(3)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), model(x))
    assert main([*words, "--size", "width=6"]) == 1
    assert "there are batch, length" in capsys.readouterr().err
    assert main([*words, "--size", "length"]) == 1
    assert "wants NAME=N" in capsys.readouterr().err


# ONNX's own tests


def test_onnx_tests_of_operators_come_out_right():
    command = [sys.executable, str(TOOLS / "onnx_node_tests.py"), "--json"]
    done = subprocess.run(
        [*command, "--every", "4"], capture_output=True, text=True, timeout=600
    )
    told = json.loads(done.stdout.splitlines()[-1])
    total = told["passed"] + len(told["failed"])
    assert total >= 400
    assert told["passed"] >= 0.97 * total, told["failed"]
    assert told["one_graph"] >= 0.9 * total


def test_a_wrong_operator_is_found():
    program = """
import sys
sys.path.insert(0, ".")
import mica, onnx_node_tests
from mica.imported import families, registry
entries = registry._TABLE["", "Sub"]
entries[0] = registry.find("", "Add", 14)
sys.argv = ["tests", "--json", "--only", "test_sub"]
sys.exit(onnx_node_tests.main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=TOOLS,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 1
    assert "test_sub" in told["failed"]
