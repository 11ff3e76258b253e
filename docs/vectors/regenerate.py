"""Write the vectors anew from the models: ``python docs/vectors/regenerate.py``."""

from pathlib import Path

from trio_tools.reference import write_call_vectors, write_program_vectors

write_call_vectors(Path(__file__).parent)
write_program_vectors(Path(__file__).parent / "language")
