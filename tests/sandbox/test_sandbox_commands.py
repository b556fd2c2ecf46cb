"""Commands of a sandbox: what is asked, what comes back, and what becomes of one that is cut off (SPEC 12.2)."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from agentkit.errors import (
    CommandFailedError,
    CommandNotFoundError,
    ConfigurationError,
    SandboxConnectionError,
    SandboxFileError,
    SandboxStoppedError,
)
from agentkit.sandbox import ExecResult, Exit, Sandbox, SandboxSpec, Stderr, Stdout
from agentkit.sandbox.execution import KeptOutput
from agentkit.testing import InMemoryEngine, InMemoryProcess, ManualRuntime
from tests.sandbox.sandbox_host import Coder, Given

MINUTE = timedelta(minutes=1)


async def hang(process: InMemoryProcess) -> int:
    """Say something, then sleep for an hour; note how it ended."""
    process.print("begun")
    await process.sleep(3_600)
    process.print("over")
    return 0


async def spell(process: InMemoryProcess) -> int:
    """Write a text byte by byte."""
    for byte in process.argv[1].encode():
        process.write(bytes([byte]))
    return 0


async def complain(process: InMemoryProcess) -> int:
    """Write to both streams, and fail."""
    process.print("some output")
    process.write_error("what went wrong\n")
    return 3


@pytest.fixture
def memory_engine() -> InMemoryEngine:
    """Return an engine that has the programs above."""
    return InMemoryEngine(commands={"hang": hang, "spell": spell, "complain": complain})


@pytest.fixture
async def coder(runtime: ManualRuntime) -> Coder:
    """Return an agent whose sandbox runs."""
    ada = runtime.get(Coder, "ada")
    await ada.use(lambda sandbox: sandbox.start())
    return ada


async def test_words_are_passed_on_as_they_are(coder: Coder) -> None:
    """Trap T8: nothing is split, expanded or guessed at; a line for a shell is asked for by name."""
    words = await coder.use(lambda sandbox: sandbox.exec("printf", "%s|", "a b", "$HOME", "&& ls", ""))
    line = await coder.use(lambda sandbox: sandbox.exec(shell="printf '%s|' $HOME && printf b"))

    assert words.stdout == "a b|$HOME|&& ls||"
    assert line.stdout == "/home/agent|b"


@pytest.mark.parametrize(
    ("argv", "keywords"),
    [
        ((), {}),
        (("ls",), {"shell": "ls"}),
        (("ls", "a\0b"), {}),
        (("ls", 3), {}),
        (("ls",), {"cwd": ""}),
        (("ls",), {"env": {"A=B": "1"}}),
        (("ls",), {"env": {"A": "secret\0"}}),
        (("ls",), {"timeout": 0}),
        (("ls",), {"max_output": 0}),
    ],
)
async def test_impossible_commands_are_refused(coder: Coder, argv: Any, keywords: Any) -> None:
    """Before anything runs; the value of a variable is in no error."""
    with pytest.raises(ConfigurationError) as refused:
        await coder.use(lambda sandbox: sandbox.exec(*argv, **keywords))

    assert "secret" not in str(refused.value)


async def test_command_starts_in_the_workspace_with_the_given_environment(runtime: ManualRuntime, given: Given) -> None:
    """Variables of the spec and of the call, the home, and a relative directory from the workspace."""
    given.spec = SandboxSpec(env={"A": "spec", "B": "spec"})

    async def scenario(sandbox: Sandbox) -> list[str]:
        await sandbox.start()
        await sandbox.files.mkdir("repo")
        line = "printf '%s ' $A $B $HOME; pwd"
        results = [
            await sandbox.exec(shell=line, env={"B": "call"}),
            await sandbox.exec(shell=line, cwd="repo"),
            await sandbox.exec("cat", stdin="typed"),
        ]
        return [result.stdout for result in results]

    out = await runtime.get(Coder, "eve").use(scenario)

    assert out == ["spec call /home/agent /workspace\n", "spec spec /home/agent /workspace/repo\n", "typed"]


async def test_missing_program_and_directory_are_errors_of_their_own(coder: Coder) -> None:
    """Trap T9: neither is an exit code with the engine's words in the output."""
    with pytest.raises(CommandNotFoundError, match="no-such-program"):
        await coder.use(lambda sandbox: sandbox.exec("no-such-program"))
    with pytest.raises(SandboxFileError):
        await coder.use(lambda sandbox: sandbox.exec("ls", cwd="nowhere"))


async def test_failing_command_raises_only_when_asked(coder: Coder) -> None:
    """Its result is there either way."""
    result = await coder.use(lambda sandbox: sandbox.exec("complain"))
    with pytest.raises(CommandFailedError, match="ended with 3: what went wrong") as failed:
        await coder.use(lambda sandbox: sandbox.exec("complain", check=True))
    merged = await coder.use(lambda sandbox: sandbox.exec("complain", merge_stderr=True))

    assert (result.exit_code, result.stdout, result.stderr) == (3, "some output\n", "what went wrong\n")
    assert failed.value.result.exit_code == 3
    assert (merged.stdout, merged.stderr) == ("some output\nwhat went wrong\n", "")


async def test_command_ends_at_its_timeout(runtime: ManualRuntime, coder: Coder) -> None:
    """Two minutes unless told otherwise; what was printed is returned (reports 4 and 32)."""
    running = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("hang")))
    short = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("hang", timeout=1, check=True)))

    await runtime.advance(timedelta(seconds=121))

    result = await running
    assert (result.timed_out, result.ok, result.stdout) == (True, False, "begun\n")
    assert result.duration == timedelta(seconds=120)
    with pytest.raises(CommandFailedError, match="timed out: begun"):
        await short


async def test_cancelled_caller_kills_the_command(runtime: ManualRuntime, coder: Coder) -> None:
    """What it would have done later does not happen."""
    running = asyncio.ensure_future(
        coder.use(lambda sandbox: sandbox.exec(shell="sleep 60 && touch /workspace/late", timeout=None))
    )
    await runtime.advance(10)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await runtime.advance(5 * MINUTE)

    assert await coder.use(lambda sandbox: sandbox.files.stat("late")) is None


async def test_stream_gives_output_as_it_comes(runtime: ManualRuntime, coder: Coder) -> None:
    """A piece is there before the command has ended, and its end comes last."""

    async def scenario(sandbox: Sandbox) -> list[Any]:
        pieces: list[Any] = []
        async for piece in sandbox.stream("complain"):
            pieces.append(piece)
        return pieces

    async def first(sandbox: Sandbox) -> Any:
        async with sandbox.stream("hang") as stream:
            async for piece in stream:
                return piece

    pieces, piece = await coder.use(scenario), await coder.use(first)

    assert [type(each) for each in pieces] == [Stdout, Stderr, Exit]
    assert (pieces[0].text, pieces[1].text, pieces[2].exit_code) == ("some output\n", "what went wrong\n", 3)
    assert piece == Stdout(b"begun\n", "begun\n")


async def test_closed_stream_kills_its_command(runtime: ManualRuntime, coder: Coder) -> None:
    """A stream that is left early is over, with all that it started; one that was never read did nothing."""

    async def scenario(sandbox: Sandbox) -> None:
        async with sandbox.stream(shell="printf x && sleep 60 && touch late") as stream:
            async for _ in stream:
                break
        sandbox.stream(shell="touch never")

    await coder.use(scenario)
    await runtime.advance(5 * MINUTE)

    assert await coder.use(lambda sandbox: sandbox.files.list()) == []


async def test_text_of_a_stream_never_ends_inside_a_character(coder: Coder) -> None:
    """Trap T6: pieces of bytes may, pieces of text don't."""

    async def scenario(sandbox: Sandbox) -> list[str]:
        return [piece.text async for piece in sandbox.stream("spell", "日本") if isinstance(piece, Stdout)]

    texts = await coder.use(scenario)

    assert "".join(texts) == "日本"
    assert "�" not in "".join(texts)


async def test_output_is_kept_up_to_a_limit(coder: Coder) -> None:
    """Report 12: head and tail of more than ``max_output``, and a count of what is missing."""

    async def scenario(sandbox: Sandbox) -> ExecResult:
        await sandbox.files.write("long", b"a" * 50_000 + b"b" * 50_000)
        return await sandbox.exec("cat", "long", max_output=1_000)

    result = await coder.use(scenario)

    assert result.truncated
    assert result.stdout == "a" * 500 + "\n[… 99,000 bytes are missing here …]\n" + "b" * 500


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 100])
@pytest.mark.parametrize("piece", [1, 2, 5, 1_000])
def test_kept_output_is_cut_between_characters(limit: int, piece: int) -> None:
    """Whatever the limit and the pieces: nothing is replaced, and kept and missing bytes add up."""
    data = "añb日😀".encode() * 20
    kept = KeptOutput(limit)

    for start in range(0, len(data), piece):
        kept.add(data[start : start + piece])
    text = kept.text()

    head, _, rest = text.partition("\n[… ")
    count, _, tail = rest.partition(" bytes are missing here …]\n")
    assert kept.is_cut
    assert "�" not in text
    assert data.startswith(head.encode())
    assert data.endswith(tail.encode())
    assert len(head.encode()) + int(count.replace(",", "")) + len(tail.encode()) == len(data)


def test_kept_output_at_its_limit_is_whole() -> None:
    """Exactly as much as is allowed is not cut."""
    kept = KeptOutput(5)

    for byte in b"12345":
        kept.add(bytes([byte]))

    assert (kept.text(), kept.is_cut) == ("12345", False)


async def test_commands_run_beside_each_other(runtime: ManualRuntime, coder: Coder) -> None:
    """Report 5: a command that hangs holds no other up."""
    hanging = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("hang", timeout=60)))

    results = await asyncio.gather(*(coder.use(lambda sandbox: sandbox.exec("true")) for _ in range(20)))

    assert all(result.ok for result in results)
    assert not hanging.done()
    await runtime.advance(MINUTE)
    await hanging


async def test_command_hears_why_the_sandbox_stopped(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """Report 7: one under way when the container is killed fails at once, and says so."""
    running = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("hang")))
    await runtime.advance(1)

    memory_engine.kill((await memory_engine.instances())[0].name)
    with pytest.raises(SandboxStoppedError) as stopped:
        await running

    assert stopped.value.reason == "killed"


async def test_command_hears_of_a_stop_though_it_goes_on_again(runtime: ManualRuntime, coder: Coder) -> None:
    """The sandbox was stopped and started again before anybody asked why the command failed."""
    running = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("hang")))
    await runtime.advance(1)

    await asyncio.gather(coder.use(lambda sandbox: sandbox.stop()), coder.use(lambda sandbox: sandbox.ensure_started()))
    with pytest.raises(SandboxStoppedError) as stopped:
        await running

    assert stopped.value.reason == "stopped"


async def test_broken_way_in_is_opened_anew(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """The command under way fails as what it is, a broken connection; the next one just works."""
    running = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("hang")))
    await runtime.advance(1)

    memory_engine.disconnect((await memory_engine.instances())[0].name)
    with pytest.raises(SandboxConnectionError):
        await running
    result = await coder.use(lambda sandbox: sandbox.exec("true"))

    assert result.ok


async def test_sandbox_that_ends_while_it_is_entered_says_why(
    runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine
) -> None:
    """Not as a broken connection."""
    enter, name = memory_engine.enter, (await memory_engine.instances())[0].name

    async def die(*_: Any) -> Any:
        memory_engine.kill(name)
        message = "the channel broke"
        raise SandboxConnectionError(message)

    memory_engine.disconnect(name)
    memory_engine.enter = die  # type: ignore[assignment, method-assign]  # this engine is the test's own
    with pytest.raises(SandboxStoppedError) as stopped:
        await coder.use(lambda sandbox: sandbox.exec("true"))
    memory_engine.enter = enter  # type: ignore[method-assign]  # see above

    assert stopped.value.reason == "killed"


async def test_silent_way_in_is_given_up(runtime: ManualRuntime, coder: Coder, memory_engine: InMemoryEngine) -> None:
    """Report 6: where not even the end of the timeout is heard of, ``exec`` ends 30 s later; the next call works."""

    class DeafGuest:
        """Passes commands on without their timeout."""

        def __init__(self, guest: Any) -> None:
            self._guest = guest

        def __getattr__(self, name: str) -> Any:
            return getattr(self._guest, name)

        def run(self, command: Any) -> Any:
            return self._guest.run(dataclasses.replace(command, timeout=None))

    enter = memory_engine.enter

    async def enter_deaf(*arguments: Any) -> Any:
        return DeafGuest(await enter(*arguments))

    memory_engine.disconnect((await memory_engine.instances())[0].name)
    memory_engine.enter = enter_deaf  # type: ignore[assignment, method-assign]  # this engine is the test's own
    running = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("hang", timeout=60)))
    await runtime.advance(89)
    was_over = running.done()
    await runtime.advance(2)

    with pytest.raises(SandboxConnectionError, match="30 s after its timeout"):
        await running
    memory_engine.enter = enter  # type: ignore[method-assign]  # see above
    assert not was_over
    assert (await coder.use(lambda sandbox: sandbox.exec("true"))).ok
