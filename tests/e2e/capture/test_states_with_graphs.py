"""Steps whose state or arguments come with an autograd graph of their own."""

from __future__ import annotations

import pytest
import torch
from e2e.capture.later_passes import grad_is_on
from torch import nn

import mica

_grad = pytest.fixture(autouse=True)(grad_is_on)

SIZE = 6


def detached(hidden):
    """As programs that cut the history of a recurrent state do."""
    if isinstance(hidden, torch.Tensor):
        return hidden.detach()
    return tuple(detached(part) for part in hidden)


class Trained:
    """A recurrent network, trained on parts of a sequence one after another."""

    def __init__(self):
        torch.manual_seed(0)
        self.net = nn.LSTM(SIZE, SIZE)
        self.head = nn.Linear(SIZE, 1)
        parts = [*self.net.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.SGD(parts, 0.05)
        self.hidden = None
        self.seen = []

    def learn(self, x, hidden):
        self.optimizer.zero_grad()
        out, hidden = self.net(x, hidden)
        loss = self.head(out).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.25)
        self.optimizer.step()
        return loss.item(), hidden

    def passed(self, x, hidden):
        return self.learn(x, detached(hidden))

    def kept(self, x, _):
        hidden = self.hidden and detached(self.hidden)
        loss, self.hidden = self.learn(x, hidden)
        return loss, self.hidden

    def beside(self, x, hidden):
        """What is returned goes on in the outer graph; the step doesn't."""
        loss, after = self.learn(x, detached(hidden))
        return loss, (hidden[0] + 1, after[1])


@pytest.mark.parametrize("kind", ["passed", "kept", "beside"])
def test_a_state_whose_history_is_cut_is_one_graph(kind):
    told, calls = [], []
    for run in (lambda program: program, mica.compile):
        trained = Trained()
        step = run(getattr(trained, kind))
        calls.append(step)
        hidden = tuple(torch.zeros(1, 2, SIZE) for _ in range(2))
        losses = []
        for i in range(10):
            torch.manual_seed(i)
            loss, hidden = step(torch.randn(3, 2, SIZE), hidden)
            losses.append(loss)
            assert hidden[1].requires_grad
            with pytest.raises(RuntimeError, match="a second time"):
                hidden[1].sum().backward()
        told.append((losses, [h.detach().tolist() for h in hidden]))
    torch.testing.assert_close(*told, rtol=1e-5, atol=1e-6)
    assert mica.explain(calls[1]).hits >= 6, str(mica.explain(calls[1]))


OUTSIDE = {
    "backward": lambda w, x, h: (w * x * h).sum().backward(),
    "beside": lambda w, x, h: (w * x).sum().backward() or (h * 2).sum(),
    "grad of it": lambda w, x, h: torch.autograd.grad((w * h).sum(), h)[0],
    "of a leaf": lambda w, x, h: torch.autograd.grad((w * h).sum(), w)[0],
    "a view": lambda w, x, h: (w * h.view(-1)[:3]).sum().backward(),
    "written": lambda w, x, h: (w * h.mul_(2)).sum().backward(),
    "itself": lambda w, x, h: h.sum().backward(),
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_who_goes_back_outside_gets_eagers_gradients(kind):
    def outcome(call):
        w, leaf = (torch.ones(3, requires_grad=True) for _ in range(2))
        results = []
        for i in range(5):
            h = leaf * (i + 2) + 1
            got = call(w, torch.arange(3.0) + i, h)
            if isinstance(got, torch.Tensor) and got.requires_grad:
                got.backward()
            results += [None if got is None else got.detach().tolist()]
            results += [
                t.grad is not None and t.grad.tolist() for t in (w, leaf)
            ]
        return results

    assert outcome(mica.compile(OUTSIDE[kind])) == outcome(OUTSIDE[kind])
