"""``trio-tools compare``: a table of properties and libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from trio_tools.cli import main
from trio_tools.reference import Backend

Capture = pytest.CaptureFixture[str]


@pytest.mark.slow
def test_the_table_shows_what_each_library_keeps(capsys: Capture) -> None:
    status = main(["compare", "--backends", "trio", "asyncio", "--examples", "1", "--seed", "3"])
    said = capsys.readouterr().out

    assert status == 0
    head, *rows = said.splitlines()
    assert head.split() == ["trio", "asyncio"]
    assert any(row.startswith("SCP-3 ") and row.split()[-2:] == ["kept", "diverges"] for row in rows)


def test_trio_itself_must_keep_everything(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    class Table:
        divergences = (("SCP-1", Backend.TRIO, None),)

        def to_text(self) -> str:
            return "a table"

    def compare(
        backends: Iterable[str], *, examples: int, seed: int, on_progress: Callable[[int, int], None]
    ) -> Table:
        assert (list(map(str, backends)), examples, seed) == (["trio"], 7, 0)
        return Table()

    monkeypatch.setattr("trio_tools.cli._compare.compare_backends", compare)

    assert main(["compare", "--backends", "trio", "--examples", "7"]) == 1
    assert capsys.readouterr().out == "a table\n"


def test_less_than_one_program_is_a_wrong_usage(capsys: Capture) -> None:
    assert main(["compare", "--examples", "0"]) == 2
    assert "argument --examples: must be 1 or more, not 0" in capsys.readouterr().err


def test_an_unknown_library_is_a_wrong_usage(capsys: Capture) -> None:
    assert main(["compare", "--backends", "curio"]) == 2
    assert "invalid choice: 'curio'" in capsys.readouterr().err


def test_comparing_needs_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def compare(*_args: object, **_options: object) -> None:
        raise ModuleNotFoundError("No module named 'hypothesis'", name="hypothesis")

    monkeypatch.setattr("trio_tools.cli._compare.compare_backends", compare)

    assert main(["compare"]) == 1
    assert capsys.readouterr().err == (
        "trio-tools: hypothesis is not installed; run: pip install 'trio-tools[all]'\n"
    )


def test_how_far_it_is_shows_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    class Table:
        divergences = ()

        def to_text(self) -> str:
            return "a table"

    def compare(*_args: object, on_progress: Callable[[int, int], None], **_options: object) -> Table:
        on_progress(1, 4)
        return Table()

    monkeypatch.setattr("trio_tools.cli._compare.compare_backends", compare)

    assert main(["compare"]) == 0
    assert capsys.readouterr().err == ""

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["compare"]) == 0
    assert "] 1 of 4 cells" in capsys.readouterr().err
