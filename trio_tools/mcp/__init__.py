"""Remote tools by the Model Context Protocol: use those of a server, or be a server.

`open_mcp_toolset` gives the tools of a real server, `serve` offers a registry's tools to a real client.
Either way a cancelled call stops on both sides of the wire. Needs the extra ``trio-tools[mcp]``.
"""

from ._serve import serve
from ._toolset import open_mcp_toolset

__all__ = ["open_mcp_toolset", "serve"]
