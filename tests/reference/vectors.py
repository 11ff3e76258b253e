"""The runners of the vectors, which stand beside them and belong to no package."""

import importlib.util
from pathlib import Path
from types import ModuleType

VECTORS = Path(__file__).parents[2] / "docs" / "vectors"
LANGUAGE = VECTORS / "language"


def runner(folder: Path) -> ModuleType:
    """Load the ``run.py`` of a folder, anew each time, so that a test may change it."""
    spec = importlib.util.spec_from_file_location("vector_runner", folder / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
