"""The fuzzer of guards finds what is planted, and nothing else.

See docs/guard_fuzz.md.

The long run is a command: tools/guard_fuzz.py.
"""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from guard_fuzzing.calls import STYLE_WORDS, STYLES
from guard_fuzzing.changes import CLASS, OBJECT
from guard_fuzzing.compare import Difference, Twins
from guard_fuzzing.process import OTHERS, PATCHES
from guard_fuzzing.relevance import asked_by, choose

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "tools" / "guard_fuzz.py"
PAIRS = 1500


def run(*options: str, before: str = "") -> Any:
    """Runs the command in a process of its own; `before` runs first there."""
    program = (
        f"import sys, os; sys.path.insert(0, {str(TOOL.parent)!r})\n{before}\n"
        f"from guard_fuzzing.command import main\nmain({list(options)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
    )
    assert done.stdout, done.stderr
    return done.stdout


def summary(*options: str, before: str = "") -> Any:
    text = run(*options, "--json", before=before)
    return json.loads(text.splitlines()[-1])


@pytest.mark.once("it runs in a process of its own")
def test_no_mutation_makes_a_hit_differ_from_eager():
    found = summary("--pairs", str(PAIRS), "--seed", "3")
    assert found["finds"] == [], json.dumps(found["finds"], indent=1)
    assert found["broken"] == []
    assert found["pairs"] >= PAIRS
    assert 2 * found["hits"] >= found["calls"]


# A compiler without guards: what the first call gave is served for ever.
FORGETFUL = """
import mica
class Forgetful:
    def __init__(self, fn):
        self.fn, self.known, self.hits = fn, None, 0
    def __call__(self, *args, **kwargs):
        if self.known is None:
            self.known = (self.fn(*args, **kwargs),)
        else:
            self.hits += 1
        return self.known[0]
    def _mica_reset(self):
        pass
    def _mica_report(self):
        return {"hits": self.hits, "split_calls": 0, "refusals": [],
                "given_up": ""}
mica.compile = lambda fn, **options: Forgetful(fn)
"""


@pytest.mark.once("it runs in a process of its own")
def test_a_compiler_without_guards_is_found_out_by_small_programs():
    found = summary("--pairs", "60", "--seed", "3", before=FORGETFUL)
    assert found["differences"] > 5
    assert found["finds"]
    number = str(found["finds"][0]["number"])
    text = run("--seed", "3", "--only", number, before=FORGETFUL)
    small = text.split("--- minimised")[1]
    assert small.count("call: program(") <= 3
    assert "return " in small


# What ends the process, hangs it, or raises where nobody awaits it: program 1
# in the compiled twin, program 2 in the eager one, program 3 in the fuzzer.
UNRULY = """
import os, warnings
from guard_fuzzing import command, explore, worlds
command._PATIENCE_S = 20.0
def case(self, number, case=explore.Explorer.case):
    self.number = number
    warnings.simplefilter("error")
    if number == 3:
        raise MemoryError
    return case(self, number)
explore.Explorer.case = case
def init(self, case, wrap, turn=0, init=worlds.World.__init__):
    init(self, case, wrap, turn)
    self.number = case.number
worlds.World.__init__ = init
def call(self, fn, args, kwargs, call=worlds.World.call):
    with self.speaking():
        if self.number == 1 and self._turn == worlds.SERVEDS:
            os.abort()
        while self.number == 2 and self._turn == worlds.EAGERS:
            pass
    return call(self, fn, args, kwargs)
worlds.World.call = call
"""


@pytest.mark.once("it runs in a process of its own")
def test_a_run_goes_on_whatever_a_program_does():
    found = summary("--pairs", "200", "--seed", "3", before=UNRULY)
    assert [broken["number"] for broken in found["broken"]] == [1, 3]
    assert "ended with -6" in found["broken"][0]["why"]
    assert "MemoryError" in found["broken"][1]["why"]
    assert "UserWarning" not in found["broken"][1]["why"]
    assert found["ended_by_eager"] == [2]
    assert found["pairs"] >= 200


# Two eager worlds, in a process whose function is patched.
PATCHED = """
from guard_fuzzing.case import Case, Line
from guard_fuzzing.process import Process
from guard_fuzzing.worlds import World, start_process
start_process()
process = Process()
case = Case(1, 1, body=[Line('warnings.warn("fuzz")', "")])
worlds = [World(case, lambda fn: fn) for _ in range(2)]
process.change("patch('warnings.warn')")
for world in worlds:
    world.call(world.names["program"], (1.0,), {})
print([world.warned for world in worlds])
"""


@pytest.mark.once("it runs in a process of its own")
def test_each_world_remembers_what_patched_functions_warned_of():
    text = run("--pairs", "0", before=PATCHED)
    one, other = ast.literal_eval(text.splitlines()[0])
    assert len(one) == 1
    assert one == other


# Of one that computes with an address, and of one that doesn't.
UNSTABLE = """
from guard_fuzzing.case import Case, Line, Step
from guard_fuzzing.explore import replay
from guard_fuzzing.process import Process
from guard_fuzzing.worlds import start_process
start_process()
process = Process()
found = []
for text in ("id(V0) % 99991", "len(V0)"):
    case = Case(1, 1, setup=[Line("V0 = [1]", "")])
    case.body = [Line(f"y = y + {text}", "")]
    case.steps = [Step("call", "torch.ones(2)", "call")]
    found.append(replay(case, process, compiles=False) is not None)
print(found)
"""


@pytest.mark.once("it runs in a process of its own")
def test_programs_that_differ_from_themselves_are_told():
    text = run("--pairs", "0", before=UNSTABLE)
    assert ast.literal_eval(text.splitlines()[0]) == [True, False]


# A program's text, what there is to choose from, and what concerns it.
CONCERNS = {
    "an operator": ("y = x * 2", PATCHES, "torch.Tensor.__mul__"),
    "a function": ("y = torch.cat([y, y])", PATCHES, "torch.cat"),
    "a class that is asked for": (
        "y = y * (2.0 if isinstance(V0, A) else 3.0)",
        OBJECT,
        "{p}.__class__ = B",
    ),
    "a registry": ("y = y * isinstance(V0, Abc)", CLASS, "Abc.register({p})"),
    "subclasses": (
        "y = y * len(Plug.__subclasses__())",
        CLASS,
        "class New({p}): pass",
    ),
    "warnings": ("warnings.warn('fuzz')", OTHERS, OTHERS[1]),
}


@pytest.mark.parametrize("what", CONCERNS)
def test_what_concerns_a_program_is_chosen_more_often(what):
    text, among, wanted = CONCERNS[what]
    assert wanted in among
    rng, asked = random.Random(1), asked_by(text)
    chosen = [choose(rng, among, asked) for _ in range(4000)]
    assert chosen.count(wanted) > 2 * 4000 / len(among)
    assert set(chosen) == set(among)


def test_ways_of_calling_have_words_of_programs_that_see_them():
    assert set(STYLE_WORDS) <= set(STYLES)
    assert "thread" in {
        style
        for style, words in STYLE_WORDS.items()
        if set(words.split()) & asked_by("y = y * threading.get_ident()")
    }


def shared() -> torch.Tensor:
    return torch.arange(4.0)


def row() -> Any:
    base = shared()
    return [base, base[:2]]


def tagged() -> Any:
    tensor: Any = shared()
    tensor.tag = 1
    return tensor


DIFFERENT = {
    "a value": ([1.0], [1.5]),
    "the sign of zero": ([0.0], [-0.0]),
    "a type": ([1], [1.0]),
    "the order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "one object or two": (
        (lambda v: [v, v])([1.0]),
        [[1.0], [1.0]],
    ),
    "memory that is shared": (row(), [shared(), shared()[:2]]),
    "a tensor's strides": (torch.ones(2, 2), torch.ones(4, 2)[::2]),
    "a tensor's dtype": (torch.ones(2), torch.ones(2, dtype=torch.float64)),
    "a leaf": (torch.ones(2), torch.ones(2, requires_grad=True)),
    "an attribute of a tensor": (shared(), tagged()),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_twins_differ_in(what):
    one, other = DIFFERENT[what]
    with pytest.raises(Difference):
        Twins(exact=True).same(one, other, "world")
    Twins(exact=True).same(one, one, "world")


def test_twins_need_not_be_one_object():
    def world():
        base = torch.arange(4.0)
        return {"a": [base, base[1:]], "b": {"k": (1, "x", None)}}

    Twins(exact=True).same(world(), world(), "world")


def test_floats_are_near_unless_they_have_to_be_exact():
    one, other = torch.ones(3), torch.ones(3) + 1e-6
    Twins(exact=False).same([one, 2.0], [other, 2.0 + 1e-9], "world")
    with pytest.raises(Difference):
        Twins(exact=True).same([one], [other], "world")
