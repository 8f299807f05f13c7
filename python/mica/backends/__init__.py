"""Mica below torch.compile, and other compilers below Mica."""
