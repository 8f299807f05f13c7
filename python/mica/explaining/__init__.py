"""What `mica.explain` shows."""
