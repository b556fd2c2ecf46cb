"""The capability on every engine: SPEC 12's example in its order, and what must survive what."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from agentkit.errors import SandboxRunningError, SandboxStoppedError, SpecMismatchError
from agentkit.sandbox import Allowlist, Sandbox, SandboxEngine, SandboxSpec, Stopped
from agentkit.sandbox.engine import AGENT, STORE, Instance, SavedImage
from agentkit.testing import ManualRuntime
from tests.sandbox.engines import CANDIDATES, eventually, needs
from tests.sandbox.sandbox_host import Coder, Given

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture
def given(engine: SandboxEngine) -> Given:
    """Return what the agents of this test go by."""
    return Given(spec=SandboxSpec(image=CANDIDATES[engine.name].image))


@pytest.fixture
async def runtime(engine: SandboxEngine, given: Given, tmp_path: Path) -> AsyncIterator[ManualRuntime]:
    """Return a runtime on an engine; nothing of its store is left behind."""
    store = f"sqlite:///{tmp_path}/agents.db"
    async with ManualRuntime(Coder, store=store, engine=engine, deps=given) as runtime:
        yield runtime
        for instance in await instances(runtime, engine):
            await engine.remove(instance.name)
        for image in await images(runtime, engine):
            await engine.delete_saved(image.id)


@pytest.fixture
def coder(runtime: ManualRuntime) -> Coder:
    """Return an agent."""
    return runtime.get(Coder, "ada")


async def instances(runtime: ManualRuntime, engine: SandboxEngine) -> list[Instance]:
    """Return the instances of this store."""
    return [each for each in await engine.instances() if each.labels.get(STORE) == runtime.store.id]


async def images(runtime: ManualRuntime, engine: SandboxEngine) -> list[SavedImage]:
    """Return the snapshots of this store."""
    return [each for each in await engine.saved() if each.labels.get(STORE) == runtime.store.id]


async def begin(sandbox: Sandbox) -> None:
    """Start, and write a file."""
    await sandbox.start()
    await sandbox.files.write("a", "1")


async def read(coder: Coder) -> str:
    """Return what the file holds."""
    return await coder.use(lambda sandbox: sandbox.files.read_text("a"))


async def state(coder: Coder) -> str:
    """Return whether it runs."""
    return (await coder.use(lambda sandbox: sandbox.info())).state


async def test_hour_away(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """Start, work, save, stop; an hour and a crash later go on from what was saved."""

    async def before(sandbox: Sandbox) -> Any:
        await sandbox.start()
        await sandbox.files.write("repo/main.txt", "the work")
        result = await sandbox.exec("cat", "main.txt", cwd="/workspace/repo", timeout=120)
        saved = await sandbox.snapshot("after-tests")
        first = (await sandbox.info()).instance
        await sandbox.stop()
        return result, saved, first

    result, saved, first = await coder.use(before)
    await runtime.advance(HOUR)
    await runtime.crash()
    await coder.use(lambda sandbox: sandbox.start(snapshot=saved.id))
    again = await coder.use(lambda sandbox: sandbox.exec("cat", "repo/main.txt"))
    second = (await coder.use(lambda sandbox: sandbox.info())).instance
    await runtime.advance(0)

    assert (result.ok, result.stdout) == (True, "the work")
    assert (again.ok, again.stdout) == (True, "the work")
    assert first != second
    assert [stop.reason for _, stop in given.stops] == ["stopped"]


@needs("process_tree")
async def test_example_of_the_specification(runtime: ManualRuntime, coder: Coder, tmp_path: Path) -> None:
    """A repository, a command in it, a server, a snapshot; an hour later all but the processes is there again."""
    repository = tmp_path / "project"
    repository.mkdir()
    git = f"git -C {repository} -c user.name=Ada -c user.email=ada@example.org"
    (repository / "test_it.py").write_text("def test_it():\n    assert True\n")
    line = f"{git} init -q && {git} add . && {git} commit -qm First"
    assert await (await asyncio.create_subprocess_shell(line)).wait() == 0

    async def work(sandbox: Sandbox) -> Any:
        await sandbox.start()
        await sandbox.git.clone(str(repository), "/workspace/repo", depth=1)
        result = await sandbox.exec("python3", "-c", "import test_it; test_it.test_it()", cwd="/workspace/repo")
        server = await sandbox.processes.start("dev", "python3", "-m", "http.server", "8000")
        await server.wait_port(8000)
        saved = await sandbox.snapshot("after-tests")
        await sandbox.stop()
        return result, saved

    async def resume(sandbox: Sandbox) -> Any:
        await sandbox.start(snapshot=saved)
        return await sandbox.processes.list(), await sandbox.exec("git", "log", "--format=%s", cwd="/workspace/repo")

    result, saved = await coder.use(work)
    await runtime.advance(HOUR)
    processes, log = await coder.use(resume)

    assert (result.exit_code, result.stderr) == (0, "")
    assert (processes, log.stdout) == ([], "First\n")


async def test_stops_and_starts_keep_every_file(coder: Coder) -> None:
    """Report 9: four rounds of stop and start, one container, content compared by its hash."""
    expected: dict[str, str] = {}
    await coder.use(begin)
    first = (await coder.use(lambda sandbox: sandbox.info())).instance
    for number in range(4):
        content = bytes(range(256)) * (number + 1)
        expected[f"file-{number}"] = hashlib.sha256(content).hexdigest()
        await coder.use(lambda sandbox, number=number, content=content: sandbox.files.write(f"file-{number}", content))  # type: ignore[misc]  # bound now

        await coder.use(lambda sandbox: sandbox.stop(grace=2))
        await coder.use(lambda sandbox: sandbox.ensure_started())

        found = {
            name: hashlib.sha256(await coder.use(lambda sandbox, name=name: sandbox.files.read(name))).hexdigest()  # type: ignore[misc]  # bound now
            for name in expected
        }
        assert found == expected
    assert (await coder.use(lambda sandbox: sandbox.info())).instance == first


async def test_ensure_started_goes_on_with_what_there_is(
    runtime: ManualRuntime, coder: Coder, engine: SandboxEngine
) -> None:
    """Nothing: the image. Running: attach. Stopped: restart. Removed: what was saved. Each once, in that order."""
    await coder.use(lambda sandbox: sandbox.ensure_started())
    await coder.use(lambda sandbox: sandbox.files.write("a", "1"))
    made = await instances(runtime, engine)
    await runtime.crash()
    await coder.use(lambda sandbox: sandbox.ensure_started())
    attached = await instances(runtime, engine)
    await coder.use(lambda sandbox: sandbox.stop())
    await coder.use(lambda sandbox: sandbox.ensure_started())
    restarted = await instances(runtime, engine)
    await coder.use(lambda sandbox: sandbox.stop())
    await runtime.advance(DAY + HOUR)
    removed = await instances(runtime, engine)
    await coder.use(lambda sandbox: sandbox.ensure_started())
    [restored] = await instances(runtime, engine)

    assert [each.id for each in made] == [each.id for each in attached] == [each.id for each in restarted]
    assert removed == []
    assert restored.id != made[0].id
    assert await read(coder) == "1"


@needs("owner_may_die")
async def test_owner_that_died_leaves_it_running(runtime: ManualRuntime, coder: Coder) -> None:
    """The next call finds it by name, with its files and its background processes (SPEC 12.8)."""
    await coder.use(begin)
    await coder.use(lambda sandbox: sandbox.processes.start("dev", "sleep", "600"))

    await runtime.crash()

    assert await read(coder) == "1"
    [process] = await coder.use(lambda sandbox: sandbox.processes.list())
    assert (process.name, process.info.exit_code) == ("dev", None)
    with pytest.raises(SandboxRunningError):
        await coder.use(lambda sandbox: sandbox.start())


async def test_calls_that_race_make_one(runtime: ManualRuntime, coder: Coder, engine: SandboxEngine) -> None:
    """Report 28: ten tools at once want it started."""
    await asyncio.gather(*(coder.use(lambda sandbox: sandbox.ensure_started()) for _ in range(10)))
    results = await asyncio.gather(*(coder.use(lambda sandbox: sandbox.exec("echo", "hi")) for _ in range(10)))

    assert len(await instances(runtime, engine)) == 1
    assert {result.stdout for result in results} == {"hi\n"}


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.1, 0.2, 0.4])
async def test_start_that_was_cancelled_is_taken_up(
    runtime: ManualRuntime, coder: Coder, engine: SandboxEngine, delay: float
) -> None:
    """Wherever it was: one container at most, and the next call goes on with it or makes one."""
    starting = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.start()))
    await asyncio.sleep(delay)
    starting.cancel()
    await asyncio.wait({starting})

    await coder.use(lambda sandbox: sandbox.ensure_started())

    assert len(await instances(runtime, engine)) == 1
    assert (await coder.use(lambda sandbox: sandbox.exec("true"))).ok


async def test_sandbox_stops_by_inactivity(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """By the engine's own time; ``on_stop`` and the next command hear why."""
    given.spec = replace(given.spec, inactivity_timeout=2)
    await coder.use(begin)

    async def has_stopped() -> bool:
        await runtime.advance(SECOND)
        return bool(given.stops)

    await eventually(has_stopped)

    [(_, stop)] = given.stops
    assert (stop.reason, stop.exit_code) == ("inactive", 75)
    with pytest.raises(SandboxStoppedError, match="inactive"):
        await coder.use(lambda sandbox: sandbox.exec("true"))
    await coder.use(lambda sandbox: sandbox.ensure_started())
    assert await read(coder) == "1"


async def test_command_keeps_it_running(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """One that takes longer than the inactivity timeout ends as it should; after it the timeout counts anew."""
    given.spec = replace(given.spec, inactivity_timeout=2)
    await coder.use(begin)

    running = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec("sleep", "5")))

    async def is_over() -> bool:
        await runtime.advance(SECOND)
        return running.done()

    await eventually(is_over)
    assert (await running).ok
    assert await state(coder) == "running"


async def test_set_inactivity_timeout_holds(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """What runs gets it at once, and keeps it when the owner dies."""
    await coder.use(begin)
    await coder.use(lambda sandbox: sandbox.set_inactivity_timeout(1))

    await runtime.crash()

    async def has_stopped() -> bool:
        await runtime.advance(SECOND)
        return await state(coder) == "stopped"

    await eventually(has_stopped)
    await runtime.advance(SECOND)
    assert [stop.reason for _, stop in given.stops] == ["inactive"]


async def test_destroy_leaves_only_snapshots(
    runtime: ManualRuntime, coder: Coder, given: Given, engine: SandboxEngine
) -> None:
    """The container and its disk are gone at once."""
    await coder.use(begin)
    saved = await coder.use(lambda sandbox: sandbox.snapshot())

    await coder.use(lambda sandbox: sandbox.destroy())
    await runtime.advance(0)

    assert await instances(runtime, engine) == []
    assert [image.id for image in await images(runtime, engine)] == [saved.id]
    assert [stop.reason for _, stop in given.stops] == ["destroyed"]


async def test_other_spec_replaces_the_container_and_keeps_the_files(
    runtime: ManualRuntime, coder: Coder, given: Given
) -> None:
    """Refused unless asked for (SPEC 12.8)."""
    await coder.use(begin)
    given.spec = replace(given.spec, env={"NEW": "1"})
    await runtime.crash()

    with pytest.raises(SpecMismatchError):
        await coder.use(lambda sandbox: sandbox.ensure_started())
    await coder.use(lambda sandbox: sandbox.ensure_started(replace=True))

    assert await read(coder) == "1"
    result = await coder.use(lambda sandbox: sandbox.exec(shell="echo $NEW"))
    assert result.stdout == "1\n"


@needs("process_tree")
@pytest.mark.parametrize("content", ["untouched", "{", "[]", '{"A": 1}', None])
async def test_changed_variables_hold_from_the_next_start(
    runtime: ManualRuntime, coder: Coder, given: Given, content: str | None
) -> None:
    """A run keeps those it was started with (SPEC 12.8); if code inside spoils the note, those of the spec hold."""

    async def variables(sandbox: Sandbox) -> str:
        return (await sandbox.exec(shell="echo $A-$B")).stdout

    path = "/run/agentkit/variables.json"
    given.spec = replace(given.spec, env={"A": "old"})
    await coder.use(begin)
    if content is None:
        await coder.use(lambda sandbox: sandbox.files.remove(path))
    elif content != "untouched":
        await coder.use(lambda sandbox: sandbox.files.write(path, content))
    given.spec = replace(given.spec, env={"A": "new", "B": "added"})
    await runtime.crash()

    before = await coder.use(variables)
    await coder.use(lambda sandbox: sandbox.ensure_started(replace=True))
    after = await coder.use(variables)

    assert before == ("old-\n" if content == "untouched" else "new-added\n")
    assert after == "new-added\n"


async def test_snapshot_is_forked(runtime: ManualRuntime, coder: Coder, engine: SandboxEngine) -> None:
    """Another agent starts from a copy; neither sees what the other does, and the copy outlives the original."""
    await coder.use(begin)
    saved = await coder.use(lambda sandbox: sandbox.snapshot("shared"))
    bob = runtime.get(Coder, "bob")

    await bob.use(lambda sandbox: sandbox.start(snapshot=saved))
    await bob.use(lambda sandbox: sandbox.files.write("a", "bob's"))
    await coder.use(lambda sandbox: sandbox.snapshots.delete(saved.id))
    await bob.use(lambda sandbox: sandbox.destroy())
    [copy] = await bob.use(lambda sandbox: sandbox.snapshots.list())
    await bob.use(lambda sandbox: sandbox.start(copy))

    assert (await read(coder), await read(bob)) == ("1", "1")
    owners = {image.labels[AGENT] for image in await images(runtime, engine)}
    assert owners == {"Coder/bob"}


async def test_left_alone_nothing_stays(runtime: ManualRuntime, coder: Coder, engine: SandboxEngine) -> None:
    """Stopped, then saved and removed, then expired: in the end the engine has nothing of ours."""
    await coder.use(begin)
    await coder.use(lambda sandbox: sandbox.snapshot())
    await coder.use(lambda sandbox: sandbox.stop())

    await runtime.advance(2 * DAY)
    after_days = len(await instances(runtime, engine)), len(await images(runtime, engine))
    await runtime.advance(40 * DAY)

    assert after_days == (0, 2)
    assert await images(runtime, engine) == []


async def test_destroyed_agent_leaves_nothing(runtime: ManualRuntime, coder: Coder, engine: SandboxEngine) -> None:
    """Its container, running or not, and its snapshots."""
    await coder.use(begin)
    await coder.use(lambda sandbox: sandbox.snapshot())

    await runtime.destroy(Coder, "ada")
    await runtime.advance(1)

    assert await instances(runtime, engine) == []
    assert await images(runtime, engine) == []
    assert runtime.events.count("destroy:leftover") == 0


async def test_monitor_sees_the_main_process_end(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """An entrypoint that ends stops the sandbox, with its exit code."""
    given.spec = replace(given.spec, entrypoint=["sh", "-c", "sleep 2; false"])

    async def watch(sandbox: Sandbox) -> Any:
        await sandbox.start()
        async with aclosing(sandbox.monitor()) as changes:
            async for change in changes:
                if isinstance(change, Stopped):
                    return change
        return None

    watching = asyncio.ensure_future(coder.use(watch))

    async def has_stopped() -> bool:
        await runtime.advance(SECOND)
        return watching.done()

    await eventually(has_stopped)
    change = await watching
    assert (change.reason, change.exit_code) == ("exited", 1)


@needs("process_tree")
async def test_exposed_port_leads_inside(runtime: ManualRuntime, coder: Coder) -> None:
    """A page of a server inside is read through an address of the loopback interface; it stays over a restart."""

    async def serve(sandbox: Sandbox) -> str:
        process = await sandbox.processes.start("web", "python3", "-m", "http.server", "8000")
        await process.wait_port(8000)
        return await sandbox.expose(8000)

    await coder.use(begin)
    url = await coder.use(serve)
    first = await asyncio.to_thread(lambda: urlopen(f"{url}/a", timeout=10).read())
    await coder.use(lambda sandbox: sandbox.stop(grace=1))
    await coder.use(lambda sandbox: sandbox.ensure_started())
    again = await coder.use(serve)
    second = await asyncio.to_thread(lambda: urlopen(f"{url}/a", timeout=10).read())

    assert (first, second, again) == (b"1", b"1", url)
    assert url.startswith("http://127.0.0.1:")


@needs("process_tree", "allowlist")
async def test_allowlist_is_served_to_each_way_in(runtime: ManualRuntime, coder: Coder, given: Given) -> None:
    """What isn't on the list is refused, with an event that names it, also after the owner has died and come back."""
    given.spec = replace(given.spec, network=Allowlist(["example.org"]))
    line = (
        "import urllib.request, urllib.error\n"
        "try: urllib.request.urlopen('http://elsewhere.example/')\n"
        "except urllib.error.HTTPError as error: print(error.code)"
    )
    await coder.use(begin)
    first = await coder.use(lambda sandbox: sandbox.exec("python3", "-c", line))
    await runtime.crash()
    second = await coder.use(lambda sandbox: sandbox.exec("python3", "-c", line))

    assert (first.stdout, second.stdout) == ("403\n", "403\n"), (first, second)
    facts = runtime.events.of("sandbox:refused")[0].payload
    assert (facts["host"], facts["port"]) == ("elsewhere.example", 80)


@needs("process_tree")
async def test_cancelled_caller_kills_the_tree(coder: Coder) -> None:
    """Children that left the session included; what they would have done later does not happen (traps T1 and T3)."""
    await coder.use(begin)
    line = "setsid sh -c 'echo up > up; sleep 2; echo late > late' & echo begun; wait; sleep 60"
    running = asyncio.ensure_future(coder.use(lambda sandbox: sandbox.exec(shell=line, timeout=None)))

    async def is_up() -> bool:
        return await coder.use(lambda sandbox: sandbox.files.stat("up")) is not None

    await eventually(is_up)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.sleep(3)

    assert await coder.use(lambda sandbox: sandbox.files.stat("late")) is None


@needs("process_tree")
async def test_timeout_returns_what_was_printed(coder: Coder) -> None:
    """And kills the tree (trap T2, reports 1, 3 and 32)."""
    await coder.use(begin)

    result = await coder.use(lambda sandbox: sandbox.exec(shell="echo begun; sleep 60 & sleep 60", timeout=1))
    left = await coder.use(lambda sandbox: sandbox.exec(shell="cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))

    assert (result.timed_out, result.stdout) == (True, "begun\n")
    assert "sleep 60" not in left.stdout
