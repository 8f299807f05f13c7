"""A mutation fuzzer of guards; see docs/guard_fuzz.md."""
