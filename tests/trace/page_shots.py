"""Open the page in headless Chromium: pictures in both languages and themes, and the time until it answers.

    python -m tests.trace.page_shots FOLDER [STEPS ...]

For each number of steps (20 and 100,000 by default) it writes the page and four pictures into the folder,
opens the page five times, each in a fresh browser, and prints how many milliseconds from navigation it took
until the page answered.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests.machine import find_browser
from tests.trace.test_page import run_of
from trio_tools.trace import render

_TIMES = 5
_READY = re.compile(r'data-ready="(\d+)"')


def browse(page: Path, hash: str, *options: str) -> str:
    """Open a page in a browser without a past and return what the options have it print."""
    browser = find_browser()
    assert browser is not None, "there is no Chromium on this machine"
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                browser,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--window-size=1400,900",
                f"--user-data-dir={profile}",
                *options,
                f"{page.as_uri()}{hash}",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout


def shoot(folder: Path, steps: int) -> list[int]:
    """Write the page of a run and its pictures; return the milliseconds until it answered."""
    page = folder / f"{steps}.html"
    page.write_text(render(run_of(steps), format="html"), "utf-8")
    for language in ("en", "de"):
        for theme in ("light", "dark"):
            picture = folder / f"{steps}-{language}-{theme}.png"
            browse(page, f"#language={language}&theme={theme}", f"--screenshot={picture}")
    found = [_READY.search(browse(page, "", "--dump-dom")) for _ in range(_TIMES)]
    return [int(ready[1]) for ready in found if ready is not None]


def main(folder: str, *numbers: str) -> None:
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    for number in numbers or ("20", "100000"):
        times = shoot(place, int(number))
        print(f"{number} steps: answers after {median(times):.0f} ms, the median of {times}")


if __name__ == "__main__":
    main(*sys.argv[1:])
