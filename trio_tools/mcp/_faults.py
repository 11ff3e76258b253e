"""Errors of the wire, worded for people: which server, what happened, what to do.

What a server says about itself is foreign text. It is clipped and stripped before it becomes part of a
message (`TP-8`), and nothing is ever concluded from it (`TP-2`, `TP-4`).
"""

from typing import Final

from trio_tools import TransportError

__all__ = ["answer_fault", "gone_fault", "malformed_fault", "remote_text", "start_fault", "unsent_fault"]

CLIP: Final = 200
"""The most characters of remote text that a message quotes (`TP-8`)."""


def remote_text(text: str) -> str:
    """Return ``text`` in one line of at most 200 characters, without control characters (`TP-8`).

    White space becomes single spaces, and whatever else does not print goes: a terminal cannot be steered
    by it and a log line cannot be forged. That includes marks that reverse the direction of writing.
    """
    # Nothing past this point can survive the clip, unless nearly all before it goes.
    head = text[: 50 * CLIP]
    line = " ".join("".join(filter(_stays, head)).split())
    return line if len(line) <= CLIP else f"{line[: CLIP - 1]}…"


def _stays(char: str) -> bool:
    return char.isprintable() or char.isspace()


def start_fault(server: str, what: str, advice: str = "") -> TransportError:
    """Describe a server that cannot be used from the start."""
    return TransportError(f'server "{server}" did not start: {what}' + (advice and f"; {advice}"))


def answer_fault(server: str, tool: str, text: str) -> TransportError:
    """Describe a server's own error answer, whatever it says (`TP-4`)."""
    said = remote_text(text)
    return TransportError(f'server "{server}" answered "{tool}" with an error' + (said and f": {said}"))


def malformed_fault(server: str, tool: str, what: str) -> TransportError:
    """Describe an answer that is none."""
    return TransportError(f'server "{server}" gave a malformed answer to "{tool}": {remote_text(what)}')


def unsent_fault(server: str, tool: str, what: str) -> TransportError:
    """Describe a request that cannot be put on the wire."""
    return TransportError(
        f'the request for "{tool}" cannot be sent to server "{server}": {remote_text(what)}'
    )


def gone_fault(server: str, tool: str, how: str, *, sent: bool) -> TransportError:
    """Describe a server that went away; whether a request took effect is never guessed (`TP-7`)."""
    if sent:
        return TransportError(
            f'server "{server}" {how} while "{tool}" ran; whether it took effect is unknown'
        )
    return TransportError(f'server "{server}" {how}; "{tool}" was not sent')
