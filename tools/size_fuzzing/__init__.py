"""A fuzzer of programs whose tensors vary in size."""
