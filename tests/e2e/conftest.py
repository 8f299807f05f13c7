"""What holds of every test here, before Mica is imported."""

import os

import torch

# Small tensors on a busy machine wait for threads otherwise.
torch.set_num_threads(1)
# Each run plans by itself; test_plan_cache.py has folders of its own.
os.environ.setdefault("MICA_PLAN_CACHE", "0")


# Files of few tests that take long. They come first: at the end the other
# processes would wait for the one that has them.
_LONGEST = (
    "test_training_numerics.py",
    "bench_models_test.py",
    "test_guard_fuzz.py",
    "test_plan_cache.py",
    "test_onnx_import.py",
    "test_frameworks.py",
    "test_references_of_calls.py",
    "test_digits_run.py",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_configure(config):
    # Many programs here aren't served on purpose: test_warnings.py.
    config.addinivalue_line("filterwarnings", "ignore::mica.MicaWarning")
