"""The eight models of zoo_paper: one graph each, with eager's numbers."""

import copy

import pytest
import torch
from e2e.model_checks import error, in_double
from e2e.training import make_step

import mica
import zoo_paper

# Of eager's own error; roundoff of a few numbers is luck.
_FLOOR = 2e-7
_STEPS = 4


def _entry(entry):
    return pytest.param(entry, id=entry.name)


_ENTRIES = [_entry(entry) for entry in zoo_paper.ENTRIES]


@pytest.mark.parametrize("entry", _ENTRIES)
def test_inference_is_one_graph(entry):
    model = entry.make().eval()
    args, kwargs = entry.make_data()
    compiled = mica.compile(model, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            served = compiled(*args, **kwargs)
        eager = model(*args, **kwargs)
        double = in_double(
            model,
            args,
            {
                name: value.double() if value.is_floating_point() else value
                for name, value in kwargs.items()
            },
        )
    assert type(served) is type(eager)
    assert error(served, double) <= max(2 * error(eager, double), _FLOOR)
    explanation = mica.explain(compiled)
    assert explanation.is_one_graph, str(explanation)
    assert explanation.hits == 2


@pytest.mark.parametrize("entry", _ENTRIES)
def test_a_training_step_is_one_graph(entry):
    eager = entry.make().train()
    served = copy.deepcopy(eager)
    args, kwargs = entry.make_data()

    def make(model):
        return make_step(
            torch.optim.SGD(model.parameters(), lr=1e-3),
            lambda *args, **kwargs: entry.score(model(*args, **kwargs)),
        )

    compiled = mica.compile(make(served), fullgraph=True)
    plain = make(eager)
    for _ in range(_STEPS):
        # Eager first: libraries set themselves up at a process's first call.
        want, got = plain(*args, **kwargs), compiled(*args, **kwargs)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    explanation = mica.explain(compiled)
    # The first step finds no gradients: a record of its own, or an eager run
    # if torch sets itself up in it.
    assert explanation.hits >= _STEPS - 2, str(explanation)
    assert all("first" in refusal.text for refusal in explanation.refusals)
    for name, want in eager.state_dict().items():
        torch.testing.assert_close(
            served.state_dict()[name], want, rtol=1e-3, atol=1e-4, msg=name
        )
