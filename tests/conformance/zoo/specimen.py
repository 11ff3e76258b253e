"""How a tool gets into the zoo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from trio_tools import Tool
from trio_tools.conformance import Profile


@frozen(kw_only=True)
class Specimen:
    requirement: str
    broken: bool
    tool: Tool
    arguments: list[Any]
    setup: Callable[[], Any] | None
    profile: Profile

    def __str__(self) -> str:
        return f"{self.requirement}-{'broken' if self.broken else 'fine'}-{self.tool.name}"


SPECIMENS: list[Specimen] = []


def _keep(requirement: str, *, broken: bool, **options: Any) -> Callable[[Tool], Tool]:
    def keep(tool: Tool) -> Tool:
        SPECIMENS.append(
            Specimen(
                requirement=requirement,
                broken=broken,
                tool=tool,
                arguments=options.get("arguments", [{}]),
                setup=options.get("setup"),
                profile=options.get("profile", Profile()),
            )
        )
        return tool

    return keep


def breaks(requirement: str, **options: Any) -> Callable[[Tool], Tool]:
    return _keep(requirement, broken=True, **options)


def keeps(requirement: str, **options: Any) -> Callable[[Tool], Tool]:
    return _keep(requirement, broken=False, **options)
