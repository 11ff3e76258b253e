"""The tests of trio_tools.mcp, against real processes."""
