"""Replays: everything but the model's words is real (SPEC 13.5)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentkit.errors import ConfigurationError, RunEndedError
from agentkit.harness import RecordingModel, ReplayModel, tool
from agentkit.testing import FakeClock, ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start

BY_HAND = """
name = "letter"
made = "by hand"
at = 2026-11-30

[[steps]]
after = "user"
match = "Write to (?P<whom>.*)"
take.whom = { pattern = 'Write to (\\w+)' }
text = "I look {{whom}} up."
calls = [{ tool = "look_up", arguments = { name = "{{whom}}" } }]

[[steps]]
after = "look_up"
take.street = { tool = "look_up", pattern = 'lives in (.*)$' }
calls = [{ tool = "send", arguments = { to = "{{whom}}", text = "You live in {{street}}." } }]

[[steps]]
text = "{{whom}} has a letter now."
"""


def written(folder: Path, text: str) -> Path:
    """Return a file with a replay."""
    path = folder / "letter.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("whom", ["bob", "eve"])
async def test_values_are_taken_from_results(manual_runtime: Start, tmp_path: Path, whom: str) -> None:
    """Another request gives other calls and another answer."""
    office = Office(model=ReplayModel(written(tmp_path, BY_HAND)))
    runtime = await manual_runtime(Clerk, deps=office)

    answer = await runtime.get(Clerk, "ada").ask(f"Write to {whom}")

    assert answer == f"{whom} has a letter now."
    assert [text for text, _ in office.sent] == [f"{whom}: You live in Main Street."]


async def test_other_request_fails_loudly(manual_runtime: Start, tmp_path: Path) -> None:
    """The run ends with what was expected and what came."""
    office = Office(model=ReplayModel(written(tmp_path, BY_HAND)))
    runtime = await manual_runtime(Clerk, deps=office)

    with pytest.raises(RunEndedError, match=r"replay:letter, step 1: .*'Sing a song'"):
        await runtime.get(Clerk, "ada").ask("Sing a song")

    assert office.sent == []


async def test_replay_that_is_over_says_so(manual_runtime: Start, tmp_path: Path) -> None:
    """It is not begun again."""
    runtime = await manual_runtime(Clerk, deps=Office(model=ReplayModel(written(tmp_path, BY_HAND))))
    ada = runtime.get(Clerk, "ada")
    await ada.ask("Write to bob")

    with pytest.raises(RunEndedError, match="has 3 steps, and was asked for one more"):
        await ada.ask("Write to bob")


def test_replay_says_that_no_model_was_called(tmp_path: Path) -> None:
    """Whether it was written by hand or recorded, and when."""
    by_hand = ReplayModel(written(tmp_path, BY_HAND))
    recorded = ReplayModel({"name": "r", "made": "recorded", "at": "2026-01-02T03:04:05Z", "model": "m", "steps": [{}]})

    assert by_hand.name == "replay:letter"
    assert by_hand.description == ("replay:letter: no model was called; its words were written by hand on 2026-11-30")
    assert recorded.description == "replay:r: no model was called; its words were recorded from m on 2026-01-02"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"steps": []}, "steps"),
        ({"made": "somehow"}, "made"),
        ({"steps": [{"text": "{{nobody}}"}]}, r"step 1 uses \{\{nobody\}\}"),
        ({"steps": [{"match": "("}]}, "no regular expression"),
        ({"steps": [{"txet": "hm"}]}, "steps.0.txet"),
    ],
)
def test_what_is_no_replay_is_refused(change: dict[str, Any], complaint: str) -> None:
    """The error says where."""
    good = {"name": "n", "made": "by hand", "steps": [{"text": "hello"}]}

    with pytest.raises(ConfigurationError, match=complaint):
        ReplayModel({**good, **change})


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Whether it is missing or broken."""
    broken = written(tmp_path, "name = ")

    for path in (broken, tmp_path / "missing.json"):
        with pytest.raises(ConfigurationError, match=path.name):
            ReplayModel(path)


async def test_missing_value_takes_its_default(manual_runtime: Start) -> None:
    """And without one it fails loudly."""
    step = {"text": "{{word}}", "take": {"word": {"pattern": "no such thing", "default": "nothing"}}}
    model = ReplayModel({"name": "n", "made": "by hand", "steps": [step]})
    runtime = await manual_runtime(Clerk, deps=Office(model=model))

    answer = await runtime.get(Clerk, "ada").ask("hello")

    assert answer == "nothing"


async def test_call_of_a_tool_that_is_not_there_fails_loudly(manual_runtime: Start) -> None:
    """It is a replay for another harness."""
    model = ReplayModel({"name": "n", "made": "by hand", "steps": [{"calls": [{"tool": "dig"}]}]})
    runtime = await manual_runtime(Clerk, deps=Office(model=model))

    with pytest.raises(RunEndedError, match="it calls 'dig', and there is no such tool"):
        await runtime.get(Clerk, "ada").ask("hello")


# --- recording


async def recorded(manual_runtime: Start, path: Path) -> str:
    """Record a conversation and return its answer."""
    model = ScriptedModel(tool_call("send", to="bob", text="{{hi}}"), "It is sent.")
    runtime = await manual_runtime(
        Clerk, deps=Office(model=RecordingModel(model, path, clock=FakeClock(datetime(2026, 5, 6, tzinfo=UTC))))
    )
    answer: str = await runtime.get(Clerk, "ada").ask("write to bob")
    await runtime.close()
    return answer


async def test_recording_is_played_back(manual_runtime: Start, tmp_path: Path) -> None:
    """The same request has the same answers, and calls real tools."""
    path = tmp_path / "letter.json"
    answer = await recorded(manual_runtime, path)
    model, office = ReplayModel(path), Office()
    office.options["model"] = model
    runtime = await manual_runtime(Clerk, deps=office)

    again = await runtime.get(Clerk, "ada").ask("write to bob")

    assert again == answer == "It is sent."
    assert [text for text, _ in office.sent] == ["bob: {{hi}}"]
    assert model.description.endswith("its words were recorded from scripted on 2026-05-06")


async def test_recording_insists_on_its_request(manual_runtime: Start, tmp_path: Path) -> None:
    """Other words are another conversation."""
    path = tmp_path / "letter.json"
    await recorded(manual_runtime, path)
    runtime = await manual_runtime(Clerk, deps=Office(model=ReplayModel(path)))

    with pytest.raises(RunEndedError, match="step 1: the request differs from the recorded one"):
        await runtime.get(Clerk, "ada").ask("write to eve")


async def test_recording_goes_on_where_it_was(manual_runtime: Start, tmp_path: Path) -> None:
    """After a crash of the process that records, with what the file holds."""
    path = tmp_path / "letters.json"
    office = Office(model=RecordingModel(ScriptedModel("one", "two"), path))
    runtime = await manual_runtime(Clerk, deps=office)
    await runtime.get(Clerk, "ada").ask("count")

    office.options["model"] = RecordingModel(ScriptedModel("one", "two"), path)
    await runtime.crash()
    await runtime.get(Clerk, "ada").ask("go on")

    assert [step["text"] for step in json.loads(path.read_text())["steps"]] == ["one", "two"]


@pytest.mark.parametrize("content", ["{}", "[1]", "no json", '{"steps": 5}'])
def test_file_that_is_no_recording(tmp_path: Path, content: str) -> None:
    """It is not overwritten."""
    path = tmp_path / "notes.json"
    path.write_text(content)

    with pytest.raises(ConfigurationError, match="recording"):
        RecordingModel(ScriptedModel(), path)

    assert path.read_text() == content


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    """It is missed before the first answer is paid for."""
    with pytest.raises(ConfigurationError, match="there is no folder"):
        RecordingModel(ScriptedModel(), tmp_path / "nowhere" / "talk.json")


async def test_shortened_conversation_is_played_back(manual_runtime: Start, tmp_path: Path) -> None:
    """Its summary is part of the recording."""

    @tool(effect="read")
    async def read(page: int) -> str:
        """Read a page."""
        return f"page {page}: " + "words " * 500

    path = tmp_path / "talk.json"
    steps: list[Any] = [*[tool_call("read", page=page) for page in range(6)], "Read."]
    office = Office(more=[read], context_tokens=4_000, max_tokens=500)
    office.options["model"] = RecordingModel(ScriptedModel(*steps, usage=None), path)
    runtime = await manual_runtime(Clerk, deps=office)
    await runtime.get(Clerk, "ada").ask("Read all of it")

    office.options["model"] = ReplayModel(path)
    answer = await runtime.get(Clerk, "bob").ask("Read all of it")

    assert answer == "Read."
    assert runtime.events.count("harness:compact") == 2
