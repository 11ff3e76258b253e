"""A profile file: limits, and failures that are known, with the day on which that excuse ends."""

import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, cast, final

from attrs import evolve, fields, frozen

from ._manifest import MANIFEST, Verdict
from ._profile import Profile
from ._report import Report

__all__ = ["KnownFailure", "ProfileError", "excused", "read_profile"]


class ProfileError(ValueError):
    """A profile file cannot be read; the message is one line."""


@final
@frozen(kw_only=True)
class KnownFailure:
    """A failure that is known.

    Attributes:
        tool: the name of the tool.
        requirement: the id of the requirement that it does not keep.
        until: the last day on which that is excused.
        reason: why it is.
    """

    tool: str
    requirement: str
    until: date
    reason: str


def read_profile(path: str | Path) -> tuple[Profile, tuple[KnownFailure, ...]]:
    """Read limits and known failures from a TOML file.

    The keys are the attributes of `Profile`, and a table ``[[known]]`` for each known failure, with
    ``tool``, ``requirement``, ``until`` (a date) and ``reason``.

    Raises:
        ProfileError: when the file cannot be read, or says something that has no meaning here.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"{path} is no TOML file: {error}") from error
    entries = content.pop("known", [])
    names = {attribute.name for attribute in fields(Profile)}
    unknown = sorted(set(content) - names)
    if unknown:
        raise ProfileError(
            f"{path}: there is no limit {unknown[0]!r}; the limits are {', '.join(sorted(names))}"
        )
    try:
        profile = Profile(**content)
    except (TypeError, ValueError) as error:
        raise ProfileError(f"{path}: {error.args[0] if error.args else error}") from error
    if not isinstance(entries, list):
        raise ProfileError(f"{path}: known failures are tables, each under [[known]]")
    return profile, tuple(_entry(path, entry) for entry in cast("list[Any]", entries))


def _entry(path: str | Path, entry: Any) -> KnownFailure:
    try:
        known = KnownFailure(**entry)
    except TypeError as error:
        raise ProfileError(
            f"{path}: a known failure has the keys tool, requirement, until and reason"
        ) from error
    for name in ("tool", "requirement", "reason"):
        if not isinstance(getattr(known, name), str):
            raise ProfileError(f"{path}: {name} of a known failure is text, not {getattr(known, name)!r}")
    if type(known.until) is not date:
        raise ProfileError(f"{path}: until is a date, such as 2027-01-31, not {known.until!r}")
    if known.requirement not in {requirement.id for requirement in MANIFEST}:
        raise ProfileError(f"{path}: there is no requirement {known.requirement!r}")
    return known


def excused(report: Report, known: Sequence[KnownFailure], *, today: date) -> Report:
    """Return ``report`` with the failures of its tool that are known, and with the entries that are stale.

    An entry is stale when its day has passed, or when the tool keeps the requirement by now: it has to be
    taken out, so that the failure is noticed when it comes back.
    """
    reasons: dict[str, str] = {}
    stale: list[str] = []
    for entry in known:
        if entry.tool != report.tool:
            continue
        name = f"the known failure {entry.requirement} of {entry.tool!r}"
        if report.verdicts[entry.requirement] not in {Verdict.FAIL, Verdict.UNRESOLVED}:
            stale.append(f"{name} is stale: the requirement is kept; take the entry out")
        elif entry.until < today:
            stale.append(f"{name} was excused until {entry.until}")
        else:
            reasons[entry.requirement] = f"known until {entry.until}: {entry.reason}"
    return evolve(report, known=reasons, stale=tuple(stale))
