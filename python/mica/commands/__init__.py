"""What the command `mica` does, a module for each of its words."""
