"""What every engine does with a command: its input and output, its end, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

import pytest

from agentkit.errors import CommandNotFoundError, SandboxFileError
from agentkit.sandbox.command import Exit, Stdout
from tests.sandbox.box import Box, Boxes
from tests.sandbox.engines import eventually, needs


async def test_output_and_errors_come_apart(box: Box) -> None:
    """What a command prints, what it complains about, and its exit code."""
    ran = await box.run(shell="echo out; echo err >&2; exit 3")

    assert (ran.stdout, ran.stderr, ran.code) == (b"out\n", b"err\n", 3)
    assert ran.exit.duration > timedelta(0)
    assert not ran.exit.timed_out
    assert not ran.exit.out_of_memory


async def test_words_are_never_split(box: Box) -> None:
    """An argument reaches the program as it is: spaces, quotes, a variable's name, nothing at all (trap T8)."""
    words = ["two words", "it's", '"', "$HOME", "a;b", "*", "", "-n", "zwölf"]

    ran = await box.run("printf", "[%s]", *words)

    assert ran.stdout.decode() == "".join(f"[{word}]" for word in words)


async def test_commands_start_where_they_are_told(box: Box) -> None:
    """The working directory is the one of the call."""
    guest = await box.inside()
    await guest.mkdir("/workspace/a b")

    assert await box.sh("pwd") == "/workspace"
    assert await box.sh("pwd", cwd="/workspace/a b") == "/workspace/a b"


async def test_environment_is_the_boxes_and_the_calls(boxes: Boxes) -> None:
    """A command has the variables of the spec and those of its call, which come first and are gone with it."""
    box = await boxes.start(env={"ONE": "1", "BOTH": "spec"})

    given = await box.sh('echo "$HOME $ONE $TWO $BOTH"', env={"TWO": "it's 2", "BOTH": "call"})
    after = await box.sh('echo "$HOME $ONE $TWO $BOTH"')

    assert given == "/home/agent 1 it's 2 call"
    assert after.split() == ["/home/agent", "1", "spec"]


async def test_input_is_read_to_its_end(box: Box) -> None:
    """Standard input is what was given, byte for byte, and then ends; without any it ends at once."""
    data = bytes(range(256)) * 4000

    ran = await box.run("cat", stdin=data)
    nothing = await box.run("cat")

    assert ran.stdout == data
    assert (nothing.stdout, nothing.code) == (b"", 0)


async def test_missing_program_is_told(box: Box) -> None:
    """A program that doesn't exist is an error, not an exit code (trap T9)."""
    with pytest.raises(CommandNotFoundError, match="no-such-program"):
        await box.run("no-such-program", "--help")


async def test_missing_directory_is_told(box: Box) -> None:
    """A working directory that isn't there, or is a file, is an error (trap T9)."""
    await box.write("/workspace/file", b"")

    with pytest.raises(SandboxFileError) as missing:
        await box.run("true", cwd="/workspace/no/such")
    with pytest.raises(NotADirectoryError):
        await box.run("true", cwd="/workspace/file")

    assert missing.value.path == "/workspace/no/such"


@needs("process_tree")
async def test_errors_can_go_where_the_output_goes(box: Box) -> None:
    """Merged, the two keep the order in which they were written (trap T7)."""
    ran = await box.run(shell="for n in 1 2 3 4 5; do echo o$n; echo e$n >&2; done", merge_stderr=True)

    assert ran.text.split() == [word for n in range(1, 6) for word in (f"o{n}", f"e{n}")]
    assert ran.stderr == b""


@needs("process_tree")
async def test_output_comes_while_the_command_runs(box: Box) -> None:
    """The first line is there before the last is printed."""
    guest = await box.inside()
    await box.sh("mkfifo gate")
    outputs = guest.run(box.command(shell="echo first; read line <gate; echo last"))

    first = await anext(outputs)
    await box.sh("echo >gate")
    rest = [output async for output in outputs]

    assert isinstance(first, Stdout)
    assert first.data == b"first\n"
    assert [output.data for output in rest if isinstance(output, Stdout)] == [b"last\n"]
    assert isinstance(rest[-1], Exit)


@needs("process_tree")
async def test_text_is_never_cut_inside_a_character(box: Box) -> None:
    """However the bytes are cut, the pieces of text are whole characters, and together all of it (trap T6)."""
    line = "for n in $(seq 1500); do printf '%s' 日本語テキスト; done"
    guest = await box.inside()

    pieces = [output async for output in guest.run(box.command(shell=line)) if isinstance(output, Stdout)]

    assert "".join(piece.text for piece in pieces) == "日本語テキスト" * 1500
    assert b"".join(piece.data for piece in pieces) == ("日本語テキスト" * 1500).encode()


@needs("process_tree")
async def test_signals_show_as_a_shell_shows_them(box: Box) -> None:
    """A command killed by a signal ends with 128 and the signal's number."""
    ran = await box.run(shell="kill -KILL $$")

    assert ran.code == 137
    assert not ran.exit.out_of_memory


@needs("process_tree")
async def test_background_child_does_not_hold_the_command(box: Box) -> None:
    """A command is over when its own process is, though a child goes on with its output open (trap T4)."""
    async with asyncio.timeout(20):
        ran = await box.run(shell="sleep 30 & echo started")

    assert ran.text == "started"


@needs("process_tree")
async def test_hundred_commands_at_once(box: Box) -> None:
    """A hundred at a time all run, each with its own output."""
    ran = await asyncio.gather(*(box.run(shell=f"echo {number}; exit {number}") for number in range(100)))

    assert [(one.text, one.code) for one in ran] == [(str(number), number) for number in range(100)]


@needs("process_tree")
async def test_much_output_is_complete(box: Box) -> None:
    """A hundred megabytes arrive whole, and never lie in memory together (trap T5, reports 12, 14)."""
    guest = await box.inside()
    command = box.command(shell="head -c 104857600 /dev/zero | tr '\\0' x")
    count, largest = 0, 0

    async for output in guest.run(command):
        if isinstance(output, Stdout):
            count += len(output.data)
            largest = max(largest, len(output.data))

    assert count == 104_857_600
    assert largest <= 1 << 20


#: Children in their own session that ignore SIGTERM, a grandchild, and one whose parent has gone (trap T3).
_STUBBORN_TREE = """
marks=$(mktemp -d)
setsid sh -c 'trap "" TERM HUP INT; echo $$ >'$marks'/a; while :; do sleep 1; done' &
sh -c '(trap "" TERM; echo x >'$marks'/b; exec sleep 3600) & exec sleep 3600' &
(setsid sh -c 'echo x >'$marks'/c; exec sleep 3600' &)
while [ ! -e $marks/a ] || [ ! -e $marks/b ] || [ ! -e $marks/c ]; do sleep 0.05; done
echo ready
wait
"""


async def _sleepers(box: Box) -> int:
    """Return how many processes named sleep or sh there are, without those that count them."""
    line = "grep -lE '^(sleep|sh)$' /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3"
    counting = await box.run(shell=f"echo $$ $PPID; {line}")
    [own, *found] = counting.text.splitlines()
    return len(set(found) - set(own.split()))


@needs("process_tree")
async def test_timeout_kills_the_whole_tree(box: Box) -> None:
    """Nothing is left of a command that took too long, and what it had printed is there (T2, T3; reports 1-4, 16)."""
    before = await _sleepers(box)

    running = asyncio.create_task(box.run(shell=_STUBBORN_TREE, seconds=3))
    await eventually(lambda: _more_sleepers(box, before + 4))
    async with asyncio.timeout(30):
        ran = await running

    assert ran.exit.timed_out
    assert ran.text == "ready"
    await eventually(lambda: _no_more_sleepers(box, before))


@needs("process_tree")
async def test_leaving_a_command_kills_the_whole_tree(box: Box) -> None:
    """Nothing is left of a command whose caller has gone (T1, T3)."""
    before = await _sleepers(box)
    guest = await box.inside()

    async with contextlib.aclosing(guest.run(box.command(shell=_STUBBORN_TREE))) as outputs:
        first = await anext(outputs)
        during = await _sleepers(box)

    assert isinstance(first, Stdout)
    assert first.data == b"ready\n"
    assert during >= before + 4
    await eventually(lambda: _no_more_sleepers(box, before))


@needs("process_tree")
async def test_closing_the_way_in_ends_foreground_commands(box: Box) -> None:
    """What an owner ran ends with its connection (T1)."""
    before = await _sleepers(box)
    guest = await box.inside()
    outputs = guest.run(box.command(shell=_STUBBORN_TREE))
    await anext(outputs)

    await box.leave()
    with contextlib.suppress(Exception):
        await outputs.aclose()

    await eventually(lambda: _no_more_sleepers(box, before))


@needs("process_tree")
async def test_children_are_no_zombies(box: Box) -> None:
    """Orphans are collected: a hundred of them leave no entry in the table of processes (T15, report 18)."""
    await box.sh("for n in $(seq 100); do (sleep 0 &) ; done")

    async def no_zombies() -> bool:
        return (await box.run(shell="grep -ls 'State:.Z' /proc/[0-9]*/status")).text == ""

    await eventually(no_zombies)


@needs("process_tree")
async def test_stuck_command_holds_no_other_up(box: Box) -> None:
    """One that never ends and one that is stopped are no reason for the next to wait (report 5)."""
    guest = await box.inside()
    stuck = [guest.run(box.command(shell=line)) for line in ("echo x; kill -STOP $$", "echo x; sleep 3600")]
    for outputs in stuck:
        await anext(outputs)

    async with asyncio.timeout(10):
        assert await box.sh("echo on") == "on"
        for outputs in stuck:
            await outputs.aclose()


@needs("other_users")
async def test_command_as_another_user(box: Box) -> None:
    """One command runs as another user of the sandbox, the next as the sandbox's own."""
    other = await box.sh("id -u", user="0:0")
    own = await box.sh("id -u")

    assert (other, own) == ("0", "1000")


async def _more_sleepers(box: Box, count: int) -> bool:
    return await _sleepers(box) >= count


async def _no_more_sleepers(box: Box, count: int) -> bool:
    return await _sleepers(box) <= count
