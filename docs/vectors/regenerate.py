"""Write the vectors anew from the model: ``python docs/vectors/regenerate.py``."""

from pathlib import Path

from trio_tools.reference import write_call_vectors

write_call_vectors(Path(__file__).parent)
