"""Run the command line as ``python -m trio_tools.cli``."""

import sys

from ._main import main

sys.exit(main())
