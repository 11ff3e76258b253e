"""Tool calls under structured concurrency, on trio.

A cancelled call stops, nothing of it is left running, and its result says what happened: how it ended
for its caller, which rule decided, and what the body did.
"""

from ._bounding import Bounds
from ._call import ExecutionToken, LayerView, ToolCall
from ._content import (
    Artifact,
    ArtifactType,
    Content,
    Context,
    ImageContent,
    TextContent,
    WriteKind,
    WriteTarget,
)
from ._decisions import Accept, Allow, Approval, Ask, BatchPolicy, Block, Deny, GateDecision, ReviewDecision
from ._errors import (
    ABORTED as TOOL_ABORTED,
)
from ._errors import (
    ABORTED_BEFORE_DISPATCH as TOOL_ABORTED_BEFORE_DISPATCH,
)
from ._errors import (
    DefinitionError,
    RegistrationError,
    ToolError,
    ToolFailure,
    TransportError,
)
from ._execution import DispatchExecution, ToolContext, ToolExecution
from ._json import (
    FrozenDict,
    FrozenList,
    JsonSchema,
    JsonValue,
    NotLossless,
    freeze_value,
    repair_text,
    thaw,
    to_json_text,
)
from ._layer import Approver, Gate, Guard, Layer, Observer, Registration, Reviewer, Wrapper
from ._life import Progress
from ._registry import CallStatistics, Registry, RegistryStatistics
from ._result import CancelCause, CauseKind, Settlement, ToolOutcome, ToolResult
from ._scope import CallScope, ScopeView, open_call_scope
from ._timeout import enforce_timeouts
from ._tool import Effect, FunctionTool, Tool, tool
from ._version import __version__ as __version__

__all__ = [
    "TOOL_ABORTED",
    "TOOL_ABORTED_BEFORE_DISPATCH",
    "Accept",
    "Allow",
    "Approval",
    "Approver",
    "Artifact",
    "ArtifactType",
    "Ask",
    "BatchPolicy",
    "Block",
    "Bounds",
    "CallScope",
    "CallStatistics",
    "CancelCause",
    "CauseKind",
    "Content",
    "Context",
    "DefinitionError",
    "Deny",
    "DispatchExecution",
    "Effect",
    "ExecutionToken",
    "FrozenDict",
    "FrozenList",
    "FunctionTool",
    "Gate",
    "GateDecision",
    "Guard",
    "ImageContent",
    "JsonSchema",
    "JsonValue",
    "Layer",
    "LayerView",
    "NotLossless",
    "Observer",
    "Progress",
    "Registration",
    "RegistrationError",
    "Registry",
    "RegistryStatistics",
    "ReviewDecision",
    "Reviewer",
    "ScopeView",
    "Settlement",
    "TextContent",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolExecution",
    "ToolFailure",
    "ToolOutcome",
    "ToolResult",
    "TransportError",
    "Wrapper",
    "WriteKind",
    "WriteTarget",
    "enforce_timeouts",
    "freeze_value",
    "open_call_scope",
    "repair_text",
    "thaw",
    "to_json_text",
    "tool",
]
