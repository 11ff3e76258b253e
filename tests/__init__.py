"""The tests of trio_tools; helpers are imported as `tests.<module>`."""
