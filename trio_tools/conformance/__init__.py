"""Whether a tool stops when it is cancelled, wherever that happens, and leaves nothing behind.

`check_tool` runs a tool many times, cancelled at every step that it takes, and reports on a manifest of
requirements. See the page "Conformance" of the documentation.
"""

from ._case import Case, Kind, Mode, TokenError, Way, named_in
from ._check import CheckError, SetupError, ToolCheck, check_tool, replay
from ._fixture import Fixture, FixtureError
from ._judges import Complaint
from ._known import KnownFailure, ProfileError, excused, read_profile
from ._manifest import MANIFEST, Requirement, Verdict
from ._profile import Profile
from ._report import (
    ConformanceError,
    Finding,
    Report,
    reports_to_html,
    reports_to_json,
    reports_to_junit,
)
from ._schedule import ScheduleError

__all__ = [
    "MANIFEST",
    "Case",
    "CheckError",
    "Complaint",
    "ConformanceError",
    "Finding",
    "Fixture",
    "FixtureError",
    "Kind",
    "KnownFailure",
    "Mode",
    "Profile",
    "ProfileError",
    "Report",
    "Requirement",
    "ScheduleError",
    "SetupError",
    "TokenError",
    "ToolCheck",
    "Verdict",
    "Way",
    "check_tool",
    "excused",
    "named_in",
    "read_profile",
    "replay",
    "reports_to_html",
    "reports_to_json",
    "reports_to_junit",
]
