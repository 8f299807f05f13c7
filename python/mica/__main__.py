"""`python -m mica`, the same as the command `mica`."""

import sys

from mica.cli import main

sys.exit(main())
