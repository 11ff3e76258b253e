"""A report for a terminal."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["text"]

_WORDS: Final = {
    "pass": ("pass", "32"),
    "fail": ("FAIL", "31;1"),
    "unresolved": ("unresolved", "33"),
    "not_applicable": ("-", "2"),
}


def text(report: dict[str, Any], *, colour: bool) -> str:
    """Return the report, given in its JSON form."""
    return "\n".join(_lines(report, colour=colour)) + "\n"


def _lines(report: dict[str, Any], *, colour: bool) -> Iterable[str]:
    word, shade = _WORDS[report["verdict"]]
    yield f"{_clean(report['tool'])}: {_paint(word, shade, colour=colour)}"
    # What keeps a tool from being judged at all is said once.
    reasons = Counter(each["reason"] for each in report["requirements"] if each["verdict"] == "unresolved")
    shared = {reason for reason, count in reasons.items() if count > 1}
    yield from (f"  unresolved: {_clean(reason)}" for reason in reasons if reason in shared)
    for requirement in report["requirements"]:
        word, shade = _WORDS[requirement["verdict"]]
        if requirement["known"]:
            word, shade = "known", "33"
        note = requirement["known"] or requirement["reason"]
        note = "" if note in shared else note
        mark = _paint(f"{word:10}", shade, colour=colour)
        line = f"  {requirement['id']}  {mark}  {requirement['title']}"
        yield line + (f"  ({_clean(note)})" if note and requirement["verdict"] != "pass" else "")
    for found in report["findings"]:
        yield ""
        yield _paint(f"{found['requirement']}: {_clean(found['message'])}", "1", colour=colour)
        if found["where"]:
            yield f"  at {_clean(found['where'])}"
        for left in found["left"]:
            yield f"  left: {_clean(left)}"
        yield f"  run: {found['case']}; seen in {found['count']} of {report['planned']} runs"
        yield f"  arguments: {_clean(json.dumps(found['arguments'], ensure_ascii=False))}"
        yield f"  replay: {found['token']}"
    for stale in report["stale"]:
        yield _paint(_clean(stale), "31", colour=colour)
    yield ""
    kind = "every place, way and order up to the bound" if report["complete"] else "a sample"
    yield f"  {report['planned']} runs: {kind}; {report['arguments']} arguments; seed {report['seed']}"


def _paint(word: str, shade: str, *, colour: bool) -> str:
    return f"\x1b[{shade}m{word}\x1b[0m" if colour else word


def _clean(value: str) -> str:
    return "".join(mark if mark.isprintable() else "\ufffd" for mark in value)
