"""The parse command: what it prints, and the exit codes that scripts use."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from agentkit.cli import parse

NOW = "2026-02-10T13:45:00-06:00"


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    parse.add_arguments(parser)
    return parse.run(parser.parse_args(words))


def test_understood_request_shows_task_and_next_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """A request that is understood is shown with its task and three runs, by the user's clock."""
    code = call("every Monday at 9 send the report", "--now", NOW, "--timezone", "America/Chicago")

    shown = capsys.readouterr().out
    assert code == 0
    assert "send the report" in shown
    assert "Mon 2026-02-16 09:00 CST" in shown
    assert "Mon 2026-03-02 09:00 CST" in shown


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("every other Friday at 16:00 pay", "Fri 2026-02-27 16:00 UTC"),
        ("every 45 minutes stretch", "Tue 2026-02-10 20:30 UTC"),
        ("in 10 minutes call", "Tue 2026-02-10 19:55 UTC"),
        ("at 7:15 and 21:45 every day brush", "Wed 2026-02-11 07:15 UTC"),
    ],
)
def test_next_runs_come_from_every_kind_of_plan(text: str, run: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Recurrences, intervals, delays and several cron rules show their runs too."""
    assert call(text, "--now", NOW) == 0

    assert run in capsys.readouterr().out


def test_question_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """A request that needs an answer prints the question and exits with 3."""
    assert call("remind me to call Bob", "--now", NOW) == 3

    assert "question:" in capsys.readouterr().out


def test_talk_is_nothing_to_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    """Talk is understood as nothing to schedule."""
    assert call("hello", "--now", NOW) == 0

    assert "nothing to schedule" in capsys.readouterr().out


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json there is one object to read, a question with its guess as candidate."""
    assert call("in 5 minutes stretch", "--now", NOW, "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    assert call("every day at 9 until the exam study", "--now", NOW, "--json") == 3
    asked = json.loads(capsys.readouterr().out)

    assert plain == {"type": "delayed", "delay_in_seconds": 300, "description": "stretch"}
    assert asked["type"] == "clarify"
    assert asked["candidate"]["cron"] == "0 9 * * *"


def test_batch_answers_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of a batch has an answer with its id."""
    rows = [
        {"id": "a", "text": "every day at 7:15 and 21:45 brush", "now": NOW, "tz": "Europe/Berlin"},
        {"id": "b", "text": "hello", "now": NOW, "tz": "UTC"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")

    assert call("--batch", str(file)) == 0

    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["cron"] == ["15 7 * * *", "45 21 * * *"]
    assert (second["id"], second["type"]) == ("b", "no-schedule")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["in 5 minutes call", "--timezone", "Mars/Olympus"], "IANA name"),
        (["in 5 minutes call", "--now", "tomorrow"], "2027-03-01T09:00"),
        ([], "give a text"),
        (["--batch", "no/such/file.jsonl"], "no/such/file.jsonl"),
    ],
)
def test_users_mistake_is_one_line(words: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake in the call is one line on stderr that says how to fix it, and exits with 2."""
    assert call(*words) == 2

    message = capsys.readouterr().err
    assert hint in message
    assert message.count("\n") == 1


def test_broken_batch_line_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line that is no such object is named by its number."""
    file = tmp_path / "rows.jsonl"
    file.write_text("\n{}\n", encoding="utf-8")

    assert call("--batch", str(file)) == 2

    assert "line 2" in capsys.readouterr().err


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences in a request are not printed."""
    call("in 5 minutes \x1b[31mcall", "--now", NOW)

    assert "\x1b" not in capsys.readouterr().out
