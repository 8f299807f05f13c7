"""Functions cut into pieces; all that knows a version's bytecode."""
