"""mica.options: environment variables from Python."""

from __future__ import annotations

import os

import pytest
import torch

import mica


def test_an_option_is_its_variable(monkeypatch):
    monkeypatch.setenv("MICA_NUM_THREADS", "3")
    assert mica.options.get("num_threads") == 3
    with mica.options.set(num_threads=2, queue=False):
        assert os.environ["MICA_NUM_THREADS"] == "2"
        assert os.environ["MICA_QUEUE"] == "0"
        assert mica.options.get("num_threads") == 2
        assert mica.options.get("queue") is False
    assert os.environ["MICA_NUM_THREADS"] == "3"
    assert "MICA_QUEUE" not in os.environ
    with mica.options.set(num_threads=None):
        assert mica.options.get("num_threads") == torch.get_num_threads()


def test_options_count_when_a_callable_is_compiled(capfd):
    with mica.options.set(disable=True):
        eager = mica.compile(torch.relu)
    with mica.options.set(logs="guards"):
        loud = mica.compile(lambda x: x + 1)
    for fn in (eager, loud):
        fn(torch.ones(2))
    assert mica.explain(eager).eager_calls == 1
    assert "mica guard" in capfd.readouterr().err


def test_each_variable_of_the_packages_page_has_an_option():
    names = {option.variable for option in mica.options.OPTIONS.values()}
    names |= {"MICA_SIMD", "MICA_TRACE", "MICA_JIT", "MICA_LLVM_LIBRARY"}
    for name in names:
        assert f"  {name}: " in mica.__doc__
    words = {line.split(":")[0].strip() for line in mica.__doc__.splitlines()}
    told = {word for word in words if word.startswith("MICA_")}
    assert told == names


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"threads": 1}, LookupError, "no option 'threads'"),
        ({"num_threads": "2"}, TypeError, "is of type int"),
        ({"num_threads": True}, TypeError, "is of type int"),
        ({"num_threads": 0}, ValueError, "above 0"),
        ({"queue": 1}, TypeError, "is of type bool"),
    ],
)
def test_a_wrong_option_sets_nothing(values, error, message, monkeypatch):
    monkeypatch.delenv("MICA_SPIN", raising=False)
    with pytest.raises(error, match=message):
        mica.options.set(spin=False, **values)
    assert "MICA_SPIN" not in os.environ


def test_a_malformed_variable_is_an_error(monkeypatch):
    monkeypatch.setenv("MICA_NUM_STREAMS", "many")
    with pytest.raises(ValueError, match="MICA_NUM_STREAMS"):
        mica.options.get("num_streams")
