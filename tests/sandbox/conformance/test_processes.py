"""What every engine does with background processes: they outlive connections, and their output is kept."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from agentkit.errors import ProcessExistsError
from agentkit.sandbox.guest import ProcessPlan
from agentkit.sandbox.spec import WORKSPACE
from tests.sandbox.box import SECOND, Box
from tests.sandbox.engines import eventually, needs

pytestmark = needs("process_tree")


def plan(name: str, shell: str) -> ProcessPlan:
    """Return the plan of a background process that runs a line of shell."""
    return ProcessPlan(name=name, argv=("sh", "-c", shell), cwd=WORKSPACE, env={"GIVEN": "yes"})


async def logs(box: Box, name: str, *, follow: bool = False) -> str:
    """Return what a process has printed."""
    guest = await box.inside()
    return b"".join([data async for data in guest.logs(name, follow=follow)]).decode()


async def test_process_outlives_the_connection(box: Box) -> None:
    """It goes on when the way in is closed, and is found with its output by the next (T1, T4; report 8)."""
    started = await (await box.inside()).start_process(plan("dev", "echo $GIVEN; while sleep 0.1; do echo tick; done"))

    await box.leave()
    await asyncio.sleep(0.3)
    [found] = await (await box.inside()).processes()

    assert started.exit_code is None
    assert (found.name, found.pid, found.exit_code) == ("dev", started.pid, None)
    assert (await logs(box, "dev")).startswith("yes\ntick\n")


async def test_name_is_taken_while_it_runs(box: Box) -> None:
    """A second one of the same name is refused until the first has ended, and then replaces it."""
    guest = await box.inside()
    await guest.start_process(plan("dev", "echo one; sleep 3600"))

    with pytest.raises(ProcessExistsError):
        await guest.start_process(plan("dev", "echo two"))
    await guest.kill_process("dev", grace=SECOND)
    await guest.start_process(plan("dev", "echo two"))
    await guest.wait_process("dev")

    assert await logs(box, "dev") == "two\n"


async def test_end_is_waited_for(box: Box) -> None:
    """Its exit code is told to those who wait and those who ask later."""
    guest = await box.inside()
    await guest.start_process(plan("job", "sleep 0.3; echo done; exit 7"))

    code = await guest.wait_process("job")

    [found] = await guest.processes()
    assert code == 7
    assert found.exit_code == 7
    assert await logs(box, "job") == "done\n"


async def test_log_is_followed_to_the_end(box: Box) -> None:
    """Who follows gets what was printed before and what comes, and an end when the process ends."""
    guest = await box.inside()
    await guest.start_process(plan("job", "for n in 1 2 3; do echo $n; sleep 0.2; done"))

    async with asyncio.timeout(20):
        followed = await logs(box, "job", follow=True)

    assert followed == "1\n2\n3\n"


async def test_whole_tree_is_killed(box: Box) -> None:
    """What ignores SIGTERM, or has left the session, ends too (T3)."""
    guest = await box.inside()
    line = "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & trap '' TERM; wait"
    await guest.start_process(plan("stubborn", line))
    pid = await eventually(lambda: logs(box, "stubborn"))

    killed = await guest.kill_process("stubborn", grace=timedelta(milliseconds=300))

    [found] = await guest.processes()
    assert killed
    assert found.exit_code is not None
    assert (await box.run(shell=f"kill -0 {pid.strip()}")).code != 0
    assert not await guest.kill_process("stubborn", grace=SECOND)


async def test_polite_process_may_tidy_up(box: Box) -> None:
    """SIGTERM comes first, and what it prints then is in the log."""
    guest = await box.inside()
    await guest.start_process(plan("polite", "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done"))
    await eventually(lambda: logs(box, "polite"))

    await guest.kill_process("polite", grace=10 * SECOND)

    assert (await logs(box, "polite")).endswith("bye\n")
    assert await guest.wait_process("polite") == 5


async def test_stop_sends_sigterm_to_processes(box: Box) -> None:
    """A process in the background is told of a stop, and what it wrote then is on the disk (T15)."""
    guest = await box.inside()
    line = "trap 'echo told >/workspace/told; exit' TERM; echo up; while :; do sleep 0.1; done"
    await guest.start_process(plan("dev", line))
    await eventually(lambda: logs(box, "dev"))

    async with asyncio.timeout(8):
        await box.stop(grace=10 * SECOND)
    await box.start()

    assert await box.read("/workspace/told") == b"told\n"
    assert await (await box.inside()).processes() == []


async def test_port_of_a_process_is_reached(box: Box) -> None:
    """A connection from outside talks to what listens inside, and only while it listens."""
    guest = await box.inside()
    with pytest.raises(ConnectionRefusedError):
        await guest.connect(8123)

    await guest.start_process(plan("web", "exec python3 -m http.server 8123 --bind 127.0.0.1"))
    await eventually(lambda: guest.is_listening(8123))
    connection = await guest.connect(8123)
    await connection.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = b""
    while data := await connection.read():
        answer += data
    await connection.close()

    assert answer.startswith(b"HTTP/1.0 200 OK")
