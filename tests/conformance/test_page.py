"""The page of a report in a real browser: what one sees, what a keyboard reaches, what a reader is told."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.zoo.leaving import keeps_a_socket_open, starts_a_system_task
from tests.conformance.zoo.stopping import has_a_child_that_goes_on, notes_it_and_raises_again
from tests.machine import find_browser
from trio_tools.conformance import MANIFEST, Profile, Report, check_tool, reports_to_html

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SMALL = Profile(max_cases=40, second_cancels=False)


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    tools = (has_a_child_that_goes_on, starts_a_system_task, keeps_a_socket_open, notes_it_and_raises_again)
    return [check_tool(each, arguments=[{}], profile=SMALL, seed=1) for each in tools]


def in_browser(reports: list[Report], folder: Path, script: str, *, width: int = 1100) -> Any:
    """Open the page, run a script in it, and return what that left in ``answer``."""
    probe = (
        "<script>try { const answer = {}; const $ = (s) => document.querySelector(s);"
        " const all = (s) => [...document.querySelectorAll(s)];"
        " const box = (n) => n.getBoundingClientRect();"
        f"{script}"
        " document.documentElement.dataset.answer = JSON.stringify(answer);"
        " } catch (e) { document.documentElement.dataset.answer = JSON.stringify({error: `${e}`}); }"
        "</script></body>"
    )
    path = folder / "page.html"
    path.write_text(reports_to_html(reports).replace("</body>", probe), "utf-8")
    browser = find_browser()
    assert browser is not None
    done = subprocess.run(
        [
            browser,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--window-size={width},900",
            f"--user-data-dir={folder / 'profile'}",
            "--dump-dom",
            f"file://{path}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = re.search(r'<html[^>]* data-answer="([^"]*)"', done.stdout)
    assert found is not None, done.stdout[:300]
    answer = json.loads(html.unescape(found[1]))
    assert "error" not in answer, answer
    return answer


def test_the_picture_shows_lanes_ticks_the_cancel_and_in_red_what_outlives_the_call(
    reports: list[Report], tmp_path: Path
) -> None:
    answer = in_browser(
        reports,
        tmp_path,
        """
        answer.findings = all('section.finding').map((n) => {
            const late = n.querySelector('.late'), life = n.querySelector('.life'),
                cancel = n.querySelector('.cancel'), over = n.querySelector('.over');
            return {
                lanes: n.querySelectorAll('.life').length,
                ticks: n.querySelectorAll('.tick').length,
                sent: n.querySelectorAll('.sent').length,
                late: [...n.querySelectorAll('.late')].length,
                after: late && box(late).left >= box(over).left && box(late).width > 60,
                red: late && getComputedStyle(late).stroke !== getComputedStyle(life).stroke,
                across: cancel && box(cancel).height >= 2 * 30,
                words: n.querySelector('.lanes').textContent,
            };
        });
        """,
    )
    child, task, socket = answer["findings"]

    assert (child["lanes"], child["late"], child["across"]) == (2, 0, True)
    assert child["ticks"] >= 6
    assert child["sent"] >= 2
    assert "cancelled at" in child["words"]
    assert (task["lanes"], task["late"], task["after"], task["red"]) == (2, 1, True, True)
    assert (socket["lanes"], socket["late"], socket["after"]) == (1, 1, True)
    assert "outlives the call" in socket["words"]


def test_the_page_is_told_to_who_does_not_see_it(reports: list[Report], tmp_path: Path) -> None:
    answer = in_browser(
        reports,
        tmp_path,
        """
        answer.headings = all('h1, h2, h3').map((n) => n.tagName);
        answer.pictures = all('svg').map((n) => document.getElementById(n.getAttribute('aria-labelledby'))
            .textContent);
        answer.sections = all('section').map((n) => document.getElementById(n.getAttribute('aria-labelledby'))
            .textContent);
        answer.words = all('figure + details').map((n) => n.querySelectorAll('tbody tr').length);
        answer.unscoped = all('th:not([scope])').length;
        answer.ids = all('[id]').length - new Set(all('[id]').map((n) => n.id)).size;
        answer.scripts = all('script').length;
        """,
    )

    assert answer["headings"][0] == "H1"
    assert answer["headings"].count("H2") == len(reports)
    assert "2 tasks; the call has ended at 0 s; outlived by trio.sleep_forever" in answer["pictures"]
    assert "1 task; the call has ended at 0 s; outlived by descriptor socket:" in answer["pictures"]
    assert [each[:5] for each in answer["sections"]] == ["TT-02", "TT-05", "TT-09"]
    assert all(rows > 3 for rows in answer["words"])
    assert answer["unscoped"] == answer["ids"] == 0
    assert answer["scripts"] == 1  # the one of this test


def test_everything_is_reached_by_keyboard(reports: list[Report], tmp_path: Path) -> None:
    answer = in_browser(
        reports,
        tmp_path,
        """
        answer.links = all('a').map((n) => { n.focus(); return document.activeElement === n; });
        answer.pictures = all('.lanes').map((n) => { n.focus(); return document.activeElement === n; });
        answer.summaries = all('summary').map((n) => {
            n.focus(); n.click();
            return document.activeElement === n && n.parentElement.open;
        });
        answer.requirements = all('td.id').length;
        """,
    )

    assert len(answer["links"]) == len(reports)
    assert len(answer["pictures"]) == 3
    assert all(answer["links"] + answer["pictures"] + answer["summaries"])
    assert answer["requirements"] == len(reports) * len(MANIFEST)


def test_no_window_is_too_narrow(reports: list[Report], tmp_path: Path) -> None:
    answer = in_browser(
        reports,
        tmp_path,
        """
        all('details').forEach((n) => { n.open = true; });
        // Chromium makes no window narrower than 500; the page can be made so.
        document.body.style.width = '320px';
        answer.over = document.body.scrollWidth;
        answer.rules = getComputedStyle($('.rules')).display;
        """,
        width=500,
    )

    assert answer == {"over": 320, "rules": "none"}


def test_the_page_asks_for_nothing_from_outside(reports: list[Report], tmp_path: Path) -> None:
    answer = in_browser(
        reports,
        tmp_path,
        """
        answer.loaded = performance.getEntriesByType('resource').map((n) => n.name);
        answer.outside = all('[src], [href]').map((n) => n.getAttribute('src') || n.getAttribute('href'))
            .filter((where) => !where.startsWith('#'));
        """,
    )

    assert answer == {"loaded": [], "outside": []}
