"""Tools that break one requirement each, and tools that look alike and are fine.

The suite is tested on them: each broken one must be caught by exactly its requirement, each fine one
must come out clean.
"""

from tests.conformance.zoo import claims, errors, hidden, leaving, loop, scopes, stopping, values
from tests.conformance.zoo.specimen import SPECIMENS, Specimen

__all__ = [
    "SPECIMENS",
    "Specimen",
    "claims",
    "errors",
    "hidden",
    "leaving",
    "loop",
    "scopes",
    "stopping",
    "values",
]
