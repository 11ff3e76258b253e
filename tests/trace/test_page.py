"""The page in a real browser: it filters, speaks two languages, answers keys, draws what is seen."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.machine import find_browser
from tests.trace.test_timeline import NASTY, ended, event, timeline_of, tool_payload
from trio_tools.trace import FenceRow, RunTimeline, Span, render

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def run_of(steps: int) -> RunTimeline:
    outcomes = ["ok", "ok", "failed", "cancelled", "ok"]
    rows = [
        event(
            ended(outcomes[n % 5]),
            sequence=n,
            second=1_900_000_000 + n // 10,
            call_id=f"c{n}",
            parent_call_id=f"c{n + 1}" if n % 5 == 1 else None,
            layer="mail" if n % 3 else "root",
            began_ms=n * 10.0,
            ended_ms=n * 10.0 + 25,
            deadline_ms=n * 10.0 + 40,
        )
        for n in range(steps)
    ]
    fence = FenceRow(
        second=1_900_000_000, tool="pay", round=1, span=Span(call_id="f", effect="unknown", began_ms=5)
    )
    return timeline_of(*rows, fences=(fence,))


def in_browser(
    timeline: RunTimeline,
    folder: Path,
    script: str,
    *,
    hash: str = "",
    language: Any = "en",
    outcome: str | None = None,
) -> Any:
    """Open the page, run a script in it, and return what that left in ``answer``."""
    page = render(timeline, format="html", language=language, outcome=outcome)
    probe = (
        "<script>try { const answer = {}; const $ = (s) => document.querySelector(s);"
        " const all = (s) => [...document.querySelectorAll(s)];"
        " const press = (name) => new KeyboardEvent('keydown', {key: name, bubbles: true});"
        " const key = (name) => $('#list').dispatchEvent(press(name));"
        f"{script}"
        " document.documentElement.dataset.answer = JSON.stringify(answer);"
        " } catch (e) { document.documentElement.dataset.answer = JSON.stringify({error: `${e}`}); }"
        "</script></body>"
    )
    path = folder / "page.html"
    path.write_text(page.replace("</body>", probe), "utf-8")
    browser = find_browser()
    assert browser is not None
    done = subprocess.run(
        [
            browser,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1400,900",
            f"--user-data-dir={folder / 'profile'}",
            "--dump-dom",
            f"file://{path}{hash}",
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


def test_the_page_filters_and_counts(tmp_path: Path) -> None:
    answer = in_browser(
        run_of(20),
        tmp_path,
        """
        answer.before = all('#rows .line').length;
        $('.tile[data-outcome=cancelled]').click();
        answer.cancelled = all('#rows .badge').map((n) => n.textContent);
        $('.tile[data-outcome=unknown]').click();
        answer.two = all('#rows .line').length;
        answer.shown = $('#shown').textContent;
        answer.hash = location.hash;
        $('#layer').value = 'mail'; $('#layer').dispatchEvent(new Event('input'));
        answer.layer = all('#rows .line').length;
        $('#tool').value = 'pay'; $('#tool').dispatchEvent(new Event('input'));
        answer.noToolOfTheLayer = all('#rows .line').length;
        $('#layer').value = ''; $('#layer').dispatchEvent(new Event('input'));
        answer.tool = all('#rows .line .tool').map((n) => n.textContent);
        $('#search').value = 'nothing like it'; $('#search').dispatchEvent(new Event('input'));
        answer.nothing = [all('#rows .line').length, $('#nothing').hidden];
        $('#tools').reset();
        answer.after = all('#rows .line').length;
        answer.rate = $('#rate .number').textContent;
        answer.pressed = all('.tile[aria-pressed=true]').length;
        """,
    )

    assert answer["before"] == answer["after"] == 21
    assert answer["cancelled"] == ["cancelled"] * 4
    assert answer["two"] == 5
    assert answer["shown"] == "5 of 21 steps"
    assert answer["hash"] == "#outcome=cancelled%2Cunknown"
    assert answer["layer"] < 5
    assert answer["noToolOfTheLayer"] == 0
    assert answer["tool"] == ["pay"]
    assert answer["nothing"] == [0, False]
    assert answer["rate"] == "25 %"
    assert answer["pressed"] == 0


def test_the_page_switches_its_language(tmp_path: Path) -> None:
    answer = in_browser(
        run_of(5),
        tmp_path,
        """
        const state = () => [document.documentElement.lang, document.title,
            $('.tile[data-outcome=cancelled] .word').textContent, $('#rows .badge').textContent,
            $('#rate .number').textContent, $('#list').getAttribute('aria-label')];
        answer.english = state();
        $('#language [data-value=de]').click();
        answer.german = state();
        answer.left = all('body *').filter((n) => !n.children.length && /runs\\.[a-z]/.test(n.textContent)
        && n.tagName !== 'SCRIPT').length;
        """,
    )

    assert answer["english"] == ["en", "Run r", "cancelled", "ok", "25 %", "Timeline"]
    assert answer["german"] == ["de", "Lauf r", "abgebrochen", "ok", "25 %", "Zeitachse"]
    assert answer["left"] == 0


def test_the_page_opens_where_its_address_says(tmp_path: Path) -> None:
    answer = in_browser(
        run_of(20),
        tmp_path,
        """
        answer.rows = all('#rows .line').length;
        answer.lang = document.documentElement.lang;
        answer.theme = document.documentElement.dataset.theme;
        """,
        hash="#outcome=failed&language=de&theme=dark",
    )

    assert answer == {"rows": 4, "lang": "de", "theme": "dark"}


def test_the_page_of_one_outcome_holds_the_others_behind_its_filter(tmp_path: Path) -> None:
    answer = in_browser(
        run_of(20),
        tmp_path,
        """
        answer.rows = all('#rows .line').length;
        answer.pressed = all('.tile[aria-pressed=true]').map((n) => n.dataset.outcome);
        answer.counted = $('.tile[data-outcome=ok] .number').textContent;
        answer.rate = $('#rate .number').textContent;
        $('.tile[data-outcome=failed]').click();
        answer.all = all('#rows .line').length;
        answer.remembered = location.hash;
        """,
        outcome="failed",
    )

    assert answer == {
        "rows": 4,
        "pressed": ["failed"],
        "counted": "12",
        "rate": "25 %",
        "all": 21,
        "remembered": "#outcome=",
    }


def test_the_page_answers_the_keyboard_and_names_what_is_active(tmp_path: Path) -> None:
    answer = in_browser(
        run_of(50),
        tmp_path,
        """
        key('ArrowDown'); key('ArrowDown');
        answer.second = [$('#list').getAttribute('aria-activedescendant'),
        $('[aria-selected=true]').getAttribute('aria-rowindex')]; answer.panel = !$('#panel').hidden;
        key('End');
        answer.last = $('[aria-selected=true]').getAttribute('aria-rowindex');
        answer.count = $('#list').getAttribute('aria-rowcount');
        key('Enter');
        answer.focus = document.activeElement.id;
        $('#panel').dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));
        answer.closed = [$('#panel').hidden, document.activeElement.id];
        answer.unnamed = all('button, select, input, [role=grid], [role=group], canvas')
            .filter((n) => !(n.textContent.trim() || n.getAttribute('aria-label') ||
            n.labels?.length)).length;
        """,
    )

    assert answer["second"][1] == "3"
    assert answer["panel"] is True
    assert answer["last"] == answer["count"] == "52"
    assert answer["focus"] == "panel"
    assert answer["closed"] == [True, "list"]
    assert answer["unnamed"] == 0


def test_nested_calls_stand_below_their_parent_and_deadlines_and_cuts_are_drawn(tmp_path: Path) -> None:
    answer = in_browser(
        run_of(5),
        tmp_path,
        """
        answer.rows = all('#rows .line').map((n) => [n.querySelector('.sequence').textContent,
        n.classList.contains('nested')]); answer.deadlines = all('#rows .deadline').length;
        answer.cuts = all('#rows .cut').length;
        answer.open = all('#rows .bar[data-outcome=unknown]').length;
        $('#order [data-value=recorded]').click();
        answer.recorded = all('#rows .line').map((n) => n.querySelector('.sequence').textContent);
        """,
    )

    assert [row[0] for row in answer["rows"]] == ["0", "", "2", "1", "3", "4"]
    assert [row[0] for row in answer["rows"] if row[1]] == ["1"]
    assert answer["deadlines"] == 5
    assert answer["open"] == 1
    assert answer["recorded"] == ["0", "1", "2", "3", "4", ""]


def test_a_long_run_draws_only_what_is_seen(tmp_path: Path) -> None:
    answer = in_browser(
        run_of(20_000),
        tmp_path,
        """
        answer.drawn = all('#rows .line').length;
        answer.elements = all('*').length;
        key('End');
        answer.last = $('[aria-selected=true] .sequence').textContent;
        answer.still = all('#rows .line').length;
        """,
    )

    assert answer["drawn"] < 80
    assert answer["still"] < 80
    assert answer["elements"] < 3000
    assert answer["last"] == "19999"


@pytest.mark.rule("TL-8")
def test_nothing_in_the_data_becomes_part_of_the_page(tmp_path: Path) -> None:
    row = event(
        tool_payload(toolName=NASTY, toolCode=NASTY, toolIsError=True), kind=NASTY, layer=NASTY, call_id=NASTY
    )
    answer = in_browser(
        timeline_of(row, run_id=NASTY),
        tmp_path,
        """
        $('#rows .line').click();
        answer.images = all('img').length;
        answer.shown = $('#panel').textContent.includes('<img src=x');
        """,
    )

    assert answer == {"images": 0, "shown": True}
