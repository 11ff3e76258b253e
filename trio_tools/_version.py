"""The version of the library; `tests/test_exports.py` compares it with the one that is built."""

from typing import Final

__version__: Final = "0.1.0"
"""As in the name of the distribution, by PEP 440."""
