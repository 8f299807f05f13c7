"""What holds of every test here, before Mica is imported."""

import os

import torch

# Small tensors on a busy machine wait for threads otherwise.
torch.set_num_threads(1)
# Each run plans by itself; test_plan_cache.py has folders of its own.
os.environ.setdefault("MICA_PLAN_CACHE", "0")


def pytest_configure(config):
    # Many programs here aren't served on purpose: test_warnings.py.
    config.addinivalue_line("filterwarnings", "ignore::mica.MicaWarning")
