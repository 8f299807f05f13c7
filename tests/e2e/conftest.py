"""One thread: small tensors on a busy machine wait for threads otherwise."""

import torch

torch.set_num_threads(1)
