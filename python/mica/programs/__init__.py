"""Programs as Python sees them: run, described, and as graphs of torch.fx."""
