"""Memory of results: the next call's once one is gone, and no other's."""

from __future__ import annotations

import pickle
import threading

import torch

import mica

SIZES = ((16,), (128, 256), (512, 1024), (2048, 1024))  # To 8 MB.


def served(f, *args):
    compiled = mica.compile(f)
    for _ in range(3):
        compiled(*args)
    return compiled


def test_a_result_that_died_leaves_its_memory_to_the_next():
    a = torch.randn(512, 1024)
    for f in (torch.square, torch.ceil):
        compiled = served(f, a)
        assert len({compiled(a).data_ptr() for _ in range(6)}) == 1


def test_results_that_live_share_nothing():
    for size in SIZES:
        inputs = [torch.randn(size) for _ in range(12)]
        compiled = served(lambda a: a * 2, inputs[0])
        for _ in range(2):
            results = [compiled(a) for a in inputs]
            views = [result.view(-1)[1:] for result in results]
            arrays = [result.numpy() for result in results]
            del results
            more = [compiled(a) for a in inputs]
            for a, view, array, other in zip(
                inputs, views, arrays, more, strict=True
            ):
                assert torch.equal(view, (a * 2).view(-1)[1:])
                assert torch.equal(torch.from_numpy(array), a * 2)
                assert torch.equal(other, a * 2)


def test_a_result_can_be_resized_moved_shared_and_pickled():
    a = torch.randn(256, 256)
    compiled = served(lambda a: a + 1, a)
    for _ in range(3):
        grown = compiled(a).resize_(512, 512)
        assert torch.equal(grown.view(-1)[: a.numel()].view_as(a), a + 1)
        shrunk = compiled(a).resize_(8, 8)
        assert torch.equal(shrunk, (a + 1).view(-1)[:64].view(8, 8))
        emptied = compiled(a)
        emptied.untyped_storage().resize_(0)
        assert emptied.untyped_storage().nbytes() == 0
        shared = compiled(a).share_memory_()
        assert shared.is_shared() and torch.equal(shared, a + 1)
        swapped = torch.empty(0).set_(compiled(a).untyped_storage())
        assert torch.equal(swapped.view(-1), (a + 1).view(-1))
        assert torch.equal(pickle.loads(pickle.dumps(compiled(a))), a + 1)


def test_threads_give_back_what_others_took():
    a = torch.randn(256, 256)
    compiled = served(lambda a, k: a * k, a, torch.tensor(2.0))
    wrong = []

    def run(seed):
        k = torch.tensor(float(seed))
        kept = [compiled(a, k)]
        for i in range(200):
            kept.append(compiled(a, k))
            if not torch.equal(kept[0], a * k):
                wrong.append((seed, i))
            del kept[0]

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_profiler_counts_memory_that_was_kept():
    a = torch.randn(512, 512)
    compiled = served(torch.square, a)
    with torch.profiler.profile(profile_memory=True) as profile:
        result = compiled(a)
    del result
    events = profile.events()
    assert sum(e.self_cpu_memory_usage for e in events) >= a.nbytes
