"""Commands through a real runner: what comes of them, and what is left of them (SPEC 12.2)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import pytest

from agentkit.errors import (
    CommandNotFoundError,
    ProcessLimitError,
    SandboxConnectionError,
    SandboxError,
    SandboxFileNotFoundError,
    SandboxNotADirectoryError,
    SandboxPermissionError,
    UnsupportedByEngineError,
)
from agentkit.sandbox.command import Exit, Stderr, Stdout
from agentkit.sandbox.runner.runner_guest import RunnerGuest
from tests.sandbox.local_runner import Place, a_guest, a_place, eventually, processes_with, run

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give the runner a user of its own")


@pytest.fixture
def place() -> Iterator[Place]:
    """A directory of the runner's user."""
    with a_place() as place:
        yield place


@pytest.fixture
async def guest(place: Place) -> AsyncIterator[RunnerGuest]:
    """A runner that serves this test."""
    async with a_guest(place) as guest:
        yield guest


# --- what comes of a command


async def test_streams_and_exit_code_are_apart(place: Place, guest: RunnerGuest) -> None:
    """Output, errors and exit code each arrive as what they are."""
    result = await run(guest, place.command("sh", "-c", "echo out; echo bad >&2; exit 7"))

    assert (result.stdout, result.stderr, result.exit.exit_code) == ("out\n", "bad\n", 7)
    assert not result.exit.timed_out
    assert not result.exit.out_of_memory


async def test_silent_command_yields_its_exit_alone(place: Place, guest: RunnerGuest) -> None:
    """An empty stream is no event, and never None."""
    result = await run(guest, place.command("true"))

    assert [type(piece) for piece in result.pieces] == [Exit]


async def test_arguments_are_never_split_or_expanded(place: Place, guest: RunnerGuest) -> None:
    """What a shell would act on reaches the program as it was given."""
    words = ["a b", "$HOME", "&& echo", "*", "", "naïve 文"]

    result = await run(guest, place.command("printf", "<%s>", *words))

    assert result.stdout == "".join(f"<{word}>" for word in words)


async def test_input_reaches_the_command_and_ends(place: Place, guest: RunnerGuest) -> None:
    """More input than any pipe holds goes through a command that answers while it reads."""
    data = os.urandom(5_000_000)

    result = await run(guest, place.command("cat", stdin=data))

    assert result.data == data


async def test_command_without_input_sees_the_end_at_once(place: Place, guest: RunnerGuest) -> None:
    """A program that reads doesn't hang."""
    result = await run(guest, place.command("cat", timeout=timedelta(seconds=20)))

    assert result.exit.exit_code == 0
    assert not result.exit.timed_out


async def test_input_that_nobody_reads_is_dropped(place: Place, guest: RunnerGuest) -> None:
    """A command that ends before it has read all is no error."""
    result = await run(guest, place.command("head", "-c", "3", stdin=b"abc" * 1_000_000))

    assert (result.stdout, result.exit.exit_code) == ("abc", 0)


async def test_merged_errors_keep_the_order_of_the_writes(place: Place, guest: RunnerGuest) -> None:
    """With ``merge_stderr`` there is one stream, and what was written first comes first."""
    script = "for i in 1 2 3 4 5 6; do echo o$i; echo e$i >&2; done"

    result = await run(guest, place.command("sh", "-c", script, merge_stderr=True))

    assert result.stdout.split() == [f"{letter}{number}" for number in range(1, 7) for letter in "oe"]
    assert result.stderr == ""


async def test_environment_is_the_images_the_sandboxs_and_the_commands(place: Place, guest: RunnerGuest) -> None:
    """Later ones win; the directory is told too."""
    command = place.command("sh", "-c", 'echo "$PATH|$LANG|$HOME|$MORE|$PWD"', env={"MORE": "yes", "LANG": "C"})

    result = await run(guest, command)

    path, *rest = result.stdout.strip().split("|")
    assert "/bin" in path
    assert rest == ["C", str(place.root), "yes", str(place.root)]


async def test_characters_are_never_cut(place: Place, guest: RunnerGuest) -> None:
    """Text whose characters lie across the borders of pieces is whole in each piece."""
    place.write("text", "漢字かな交じり文" * 15_000)

    result = await run(guest, place.command("cat", "text"))

    texts = [piece.text for piece in result.pieces if isinstance(piece, Stdout)]
    assert len(texts) > 1
    assert "".join(texts) == "漢字かな交じり文" * 15_000
    assert not any("�" in text for text in texts)


async def test_bytes_that_are_no_text_are_replaced(place: Place, guest: RunnerGuest) -> None:
    """The bytes are there as they were; in the text a broken end is shown as such."""
    result = await run(guest, place.command("printf", r"ok\377\344\270"))

    assert result.data == b"ok\xff\xe4\xb8"
    assert result.stdout == "ok\ufffd\ufffd"


async def test_killed_command_shows_the_signal_and_no_want_of_memory(place: Place, guest: RunnerGuest) -> None:
    """137 alone doesn't mean that memory was missing."""
    result = await run(guest, place.command("sh", "-c", "kill -KILL $$"))

    assert result.exit.exit_code == 128 + signal.SIGKILL
    assert not result.exit.out_of_memory


async def test_script_without_an_interpreter_line_is_run_by_the_shell(place: Place, guest: RunnerGuest) -> None:
    """As a shell would."""
    place.write("script", 'echo "got $1"', mode=0o755)

    result = await run(guest, place.command("./script", "it"))

    assert result.stdout == "got it\n"


# --- what stands in the way


async def test_missing_program_is_an_error_of_its_own(place: Place, guest: RunnerGuest) -> None:
    """Not an exit code with a text, and told from a missing directory."""
    with pytest.raises(CommandNotFoundError) as caught:
        await run(guest, place.command("no-such-program", "-x"))

    assert caught.value.program == "no-such-program"


async def test_missing_interpreter_is_told_as_such(place: Place, guest: RunnerGuest) -> None:
    """The script is there; what its first line names isn't."""
    place.write("script", "#!/no/such/interpreter\n", mode=0o755)

    with pytest.raises(CommandNotFoundError, match="interpreter"):
        await run(guest, place.command("./script"))


async def test_missing_directory_is_an_error_of_its_own(place: Place, guest: RunnerGuest) -> None:
    """Whether it is missing or a file is told apart."""
    file = place.write("file", "")

    with pytest.raises(SandboxFileNotFoundError, match="missing"):
        await run(guest, place.command("true", cwd=str(place.root / "missing")))
    with pytest.raises(SandboxNotADirectoryError, match="file"):
        await run(guest, place.command("true", cwd=file))


async def test_program_that_may_not_be_run_is_an_error_of_its_own(place: Place, guest: RunnerGuest) -> None:
    """It is there, but it isn't executable."""
    place.write("plain", "echo no", mode=0o644)

    with pytest.raises(SandboxPermissionError, match="plain"):
        await run(guest, place.command("./plain"))


async def test_argument_that_no_system_takes_fails_alone(place: Place, guest: RunnerGuest) -> None:
    """The runner survives what can't be handed to a program."""
    with pytest.raises(SandboxError, match="null byte"):
        await run(guest, place.command("echo", "a\0b"))
    with pytest.raises(SandboxError, match="too long"):
        await run(guest, place.command("echo", "x" * 3_000_000))

    assert (await run(guest, place.command("echo", "fine"))).stdout == "fine\n"


async def test_another_user_is_not_for_the_runner(place: Place, guest: RunnerGuest) -> None:
    """It has one user, and says so."""
    with pytest.raises(UnsupportedByEngineError, match="user"):
        await run(guest, place.command("id", user="root"))


@needs_root
async def test_full_process_table_is_an_error_of_its_own() -> None:
    """A command that can't be started for that reason says so, and later ones run again."""
    with a_place(limit=12) as place:
        async with a_guest(place) as guest:
            sleepers = [asyncio.create_task(run(guest, place.command("sleep", "600"))) for _ in range(20)]
            done, waiting = await asyncio.wait(sleepers, timeout=10, return_when=asyncio.FIRST_EXCEPTION)

            assert {type(task.exception()) for task in done} == {ProcessLimitError}
            assert len(waiting) > 3
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            assert (await run(guest, place.command("echo", "again"))).stdout == "again\n"


# --- the end of a command and its tree

# Each member is there before the script goes on: a child in the session, one that left it, one whose parent has
# ended, one of which both is true, and one that ignores requests to end.
TREE = """
sleep 600 & echo $! >pids
setsid sh -c 'echo $$ >>pids; exec sleep 601' &
(sh -c 'sleep 602 & echo $! >>pids') &
(setsid sh -c 'echo $$ >>pids; exec sleep 605' &)
sh -c 'trap "" TERM; echo $$ >>pids; while :; do sleep 603; done' &
while [ "$(wc -l <pids)" -lt 5 ]; do sleep 0.01; done
echo ready
sleep 604
"""


def tree_of(place: Place) -> list[int]:
    """Return the members of ``TREE`` that the script has written down."""
    return [int(line) for line in (place.root / "pids").read_text().split()]


def living(pids: list[int]) -> list[int]:
    """Return those that live."""
    alive = processes_with("")
    return [pid for pid in pids if pid in alive]


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_time_limit_ends_the_whole_tree(place: Place, guest: RunnerGuest) -> None:
    """Nothing is left, whatever session or parent it has; what was printed so far comes back."""
    task = asyncio.create_task(run(guest, place.command("sh", "-c", TREE, timeout=timedelta(seconds=2))))
    await eventually(lambda: (place.root / "pids").exists() and len(tree_of(place)) == 5)
    began = living(tree_of(place))

    result = await task

    assert len(began) == 5
    assert living(tree_of(place)) == []
    assert processes_with(str(place.root)) == []
    assert result.exit.timed_out
    assert result.exit.exit_code == 137
    assert result.stdout == "ready\n"
    assert timedelta(seconds=2) <= result.exit.duration < timedelta(seconds=6)


async def test_time_limit_catches_what_wipes_its_environment(place: Place, guest: RunnerGuest) -> None:
    """A daemon with neither session, parent nor environment in common is told by when it began."""
    script = "(env -i setsid sh -c 'echo $$ >pids; exec sleep 600' &); sleep 600"
    task = asyncio.create_task(run(guest, place.command("sh", "-c", script, timeout=timedelta(seconds=2))))
    await eventually(lambda: (place.root / "pids").exists() and tree_of(place))
    began = living(tree_of(place))

    result = await task

    assert result.exit.timed_out
    assert len(began) == 1
    assert living(tree_of(place)) == []


async def test_time_limit_catches_the_children_of_its_children(place: Place, guest: RunnerGuest) -> None:
    """One that wiped its environment and left the session is found by its parent, whatever else runs meanwhile."""
    script = "env -i setsid sh -c 'echo $$ >pids; sleep 600; true' & sleep 600"
    other = asyncio.create_task(run(guest, place.command("sleep", "600")))
    task = asyncio.create_task(run(guest, place.command("sh", "-c", script, timeout=timedelta(seconds=1))))
    await eventually(lambda: (place.root / "pids").exists() and tree_of(place) and children(tree_of(place)[0]))
    members = [*tree_of(place), *children(tree_of(place)[0])]

    result = await task

    assert result.exit.timed_out
    assert len(members) == 2
    assert living(members) == []
    assert not other.done()
    other.cancel()
    await asyncio.wait([other])


async def test_closing_the_generator_ends_the_tree(place: Place, guest: RunnerGuest) -> None:
    """When ``aclose`` returns, nothing of it is left."""
    async with aclosing(guest.run(place.command("sh", "-c", TREE))) as outputs:
        first = await anext(outputs)
        began = living(tree_of(place))

    assert isinstance(first, Stdout)
    assert len(began) == 5
    assert living(tree_of(place)) == []


async def test_cancelled_caller_ends_the_tree(place: Place, guest: RunnerGuest) -> None:
    """A task that is cancelled takes its command with it."""
    task = asyncio.create_task(run(guest, place.command("sh", "-c", TREE)))
    await eventually(lambda: (place.root / "pids").exists() and len(tree_of(place)) == 5)
    began = living(tree_of(place))

    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert len(began) == 5
    await eventually(lambda: living(tree_of(place)) == [])


async def test_death_of_the_owner_ends_foreground_commands(place: Place) -> None:
    """The end of the channel is enough: nobody asks for anything."""
    guest = await place.open()
    task = asyncio.create_task(run(guest, place.command("sh", "-c", TREE)))
    await eventually(lambda: (place.root / "pids").exists() and len(tree_of(place)) == 5)
    began = living(tree_of(place))

    await guest.close()

    with pytest.raises(SandboxConnectionError):
        await task
    assert len(began) == 5
    assert living(tree_of(place)) == []


BOMB = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.001)
"""


@needs_root
async def test_fork_bomb_ends_with_its_time_limit() -> None:
    """Nothing is faster at making processes than the runner at stopping them."""
    with a_place(limit=80) as place:
        bomb = place.write("bomb.py", BOMB)
        async with a_guest(place) as guest:
            task = asyncio.create_task(run(guest, place.command("python3", bomb, timeout=timedelta(seconds=1))))
            await eventually(lambda: len(processes_with(bomb)) > 20)

            result = await task

            assert result.exit.timed_out
            assert processes_with(bomb) == []


# --- what a command leaves in the background


async def test_background_child_keeps_nobody_waiting(place: Place, guest: RunnerGuest) -> None:
    """The command's end counts, not that of whatever still holds its output; that lives on, and may print."""
    script = "(while ! [ -e go ]; do sleep 0.01; done; echo late; echo survived >mark) & echo early"

    result = await run(guest, place.command("sh", "-c", script))

    assert result.stdout == "early\n"
    assert result.exit.duration < timedelta(seconds=1)
    place.write("go", "")
    await eventually(lambda: (place.root / "mark").exists())


async def test_child_of_a_finished_command_outlives_the_owner(place: Place) -> None:
    """It was left in the background on purpose."""
    async with a_guest(place) as guest:
        result = await run(guest, place.command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"))

    assert living([int(result.stdout)]) == [int(result.stdout)]


# --- many and much


async def test_hundred_commands_at_once(place: Place, guest: RunnerGuest) -> None:
    """They run side by side, and a stuck one keeps none of the others."""
    stuck = asyncio.create_task(run(guest, place.command("sleep", "600")))

    results = await asyncio.gather(*(run(guest, place.command("echo", str(number))) for number in range(100)))

    assert [result.stdout for result in results] == [f"{number}\n" for number in range(100)]
    assert not stuck.done()
    stuck.cancel()
    await asyncio.wait([stuck])


async def test_errors_and_output_of_many_megabytes_arrive_whole(place: Place, guest: RunnerGuest) -> None:
    """Both streams at once, more than any buffer holds, and not a byte is missing."""
    script = "head -c 30000000 /dev/zero >&2 & head -c 30000000 /dev/zero; wait"
    out = errors = 0

    async for piece in guest.run(place.command("sh", "-c", script)):
        match piece:
            case Stdout(data=data):
                out += len(data)
            case Stderr(data=data):
                errors += len(data)
            case Exit():
                pass

    assert (out, errors) == (30_000_000, 30_000_000)


async def test_slow_reader_fills_no_memory_and_delays_nobody(place: Place, guest: RunnerGuest) -> None:
    """A stream that nobody reads stands still; the rest goes on, and all of it is there in the end."""
    script = "head -c 50000000 /dev/zero; echo end"
    pid = await runner_pid(place, guest)
    before = peak_memory(pid)
    async with aclosing(guest.run(place.command("sh", "-c", script))) as outputs:
        received = len(first.data) if isinstance(first := await anext(outputs), Stdout) else 0

        other = await run(guest, place.command("echo", "quick"))
        async for piece in outputs:
            if isinstance(piece, Stdout):
                received += len(piece.data)

    assert other.stdout == "quick\n"
    assert received == 50_000_000 + len("end\n")
    assert peak_memory(pid) - before < 4 << 20


async def runner_pid(place: Place, guest: RunnerGuest) -> int:
    """Return the runner's own pid."""
    return int((await run(guest, place.command("sh", "-c", "echo $PPID"))).stdout)


def peak_memory(pid: int) -> int:
    """Return the most memory that a process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
