"""`python -m experiments`: see `experiments.cli`."""

import sys

from experiments.cli import MODULE, console

sys.exit(console(MODULE))
