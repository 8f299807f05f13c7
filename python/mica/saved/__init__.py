"""Programs in folders, which run without Python."""
