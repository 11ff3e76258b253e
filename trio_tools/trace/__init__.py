"""The record of runs: steps, the store they survive in, and the timeline that people read.

A `RunTrace` attached to a layer records a step for each result, and commits a fence before a body that may
write, so that a record that ends early says `unknown` instead of guessing.
"""

from ._cancels import CancelWatch
from ._privacy import PrivacyLevel, filter_step
from ._recorder import FenceError, LiveListener, RunTrace
from ._retry import RetryDecision, is_transient, retry_policy
from ._rows import EventRow, FenceRow, RunRow, RunRows, Span
from ._sql import RunStoreError, StoreVersionError
from ._step import (
    ContradictoryStepError,
    EventKind,
    OutcomeOnNonToolStepError,
    RunStep,
    StepFormatError,
    StepKind,
)
from ._store import RunStore, open_store
from ._wire import read_outcome, step_to_json, structure_step
from ._writing import RunWriter, StoreStatistics

__all__ = [
    "CancelWatch",
    "ContradictoryStepError",
    "EventKind",
    "EventRow",
    "FenceError",
    "FenceRow",
    "LiveListener",
    "OutcomeOnNonToolStepError",
    "PrivacyLevel",
    "RetryDecision",
    "RunRow",
    "RunRows",
    "RunStep",
    "RunStore",
    "RunStoreError",
    "RunTrace",
    "RunWriter",
    "Span",
    "StepFormatError",
    "StepKind",
    "StoreStatistics",
    "StoreVersionError",
    "filter_step",
    "is_transient",
    "open_store",
    "read_outcome",
    "retry_policy",
    "step_to_json",
    "structure_step",
]
