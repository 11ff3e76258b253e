"""The record of runs: steps, the store they survive in, and the timeline that people read.

A `RunTrace` attached to a layer records a step for each result, and commits a fence before a body that may
write, so that a record that ends early says `unknown` instead of guessing.
"""

from ._cancels import CancelWatch
from ._labels import Language, labels
from ._otel import instrument
from ._overview import RunOverview, overview_of, print_runs, render_runs
from ._privacy import PrivacyLevel, filter_step
from ._recorder import CallUnderWay, FenceError, LiveListener, RunTrace
from ._render import Format, render
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
from ._text import print_timeline
from ._timeline import OutcomeCounts, RunTimeline, TimelineEntry
from ._wire import read_outcome, step_to_json, structure_step
from ._writing import RunWriter, StoreStatistics

__all__ = [
    "CallUnderWay",
    "CancelWatch",
    "ContradictoryStepError",
    "EventKind",
    "EventRow",
    "FenceError",
    "FenceRow",
    "Format",
    "Language",
    "LiveListener",
    "OutcomeCounts",
    "OutcomeOnNonToolStepError",
    "PrivacyLevel",
    "RetryDecision",
    "RunOverview",
    "RunRow",
    "RunRows",
    "RunStep",
    "RunStore",
    "RunStoreError",
    "RunTimeline",
    "RunTrace",
    "RunWriter",
    "Span",
    "StepFormatError",
    "StepKind",
    "StoreStatistics",
    "StoreVersionError",
    "TimelineEntry",
    "filter_step",
    "instrument",
    "is_transient",
    "labels",
    "open_store",
    "overview_of",
    "print_runs",
    "print_timeline",
    "read_outcome",
    "render",
    "render_runs",
    "retry_policy",
    "step_to_json",
    "structure_step",
]
