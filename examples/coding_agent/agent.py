"""The coding agent: clones a repository into a sandbox, works on it, goes away, and takes up again where it was.

Two callbacks of its schedule do everything. Each may be cut off at any line and is then run again from its top: what
is done already is found in the agent's state or in the sandbox.
"""

from __future__ import annotations

import asyncio
import hashlib
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel

from agentkit import Agent, AgentContext, AgentOptions, RetryPolicy
from agentkit.errors import PortTimeoutError, SandboxError
from agentkit.harness import CallEnded, Harness, Limits, Outcome, ReplayModel
from agentkit.prompts import load_prompt
from agentkit.sandbox import Allowlist, Sandbox, SandboxSpec
from examples.coding_agent.project import INDEXES, INSTALLED, PORT, Project, recognise
from examples.coding_agent.tools import REPOSITORY, RepositoryTools

#: Made inside once a step is through, so that snapshots know of it too.
_DONE = "/workspace/.steps"
#: Bytes of a diff that are kept; it is stored with the agent's state.
_MAX_DIFF = 200_000

Phase = Literal["new", "working", "away", "resuming", "finishing", "done", "failed"]


class ModelFailedError(Exception):
    """A run of the model came to no end."""


class Order(BaseModel):
    """What the agent is to do.

    Attributes:
        repository: A URL, or a path on the host.
        task: In plain words.
        resume_after: Seconds it stays away.
    """

    repository: str
    task: str
    resume_after: float = 3_600


class Result(BaseModel):
    """What came of it.

    Attributes:
        report: The model's last words.
        diff: All changes to the repository.
        tests: What the tests printed, at the very end.
        tests_passed: Whether they did; None if there are none.
        page: What the development server answered, before and after the break.
        ended: ``completed``, or why a run of the model ended otherwise.
    """

    report: str = ""
    diff: str = ""
    tests: str = ""
    tests_passed: bool | None = None
    page: list[str] = []
    ended: str = ""


class Progress(BaseModel):
    """Where the agent is; all that it must remember besides its sandbox and its conversation."""

    phase: Phase = "new"
    order: Order | None = None
    snapshot: str | None = None
    resume_at: datetime | None = None
    failures: int = 0
    result: Result = Result()


class Watcher(Protocol):
    """Who is told what happens, for people to follow."""

    def step(self, text: str) -> None:
        """Something begins."""

    def detail(self, text: str) -> None:
        """Something of it is done."""

    def finished(self) -> None:
        """The agent is through."""


class Settings(Protocol):
    """What the example's agents are given as ``deps``."""

    model: Any
    engine: Any
    image: str | None
    hosts: tuple[str, ...]
    token: str | None
    keep: bool
    watcher: Watcher


class CodingAgent(Agent[Progress]):
    """One task on one repository."""

    initial_state = Progress()
    options = AgentOptions(retry=RetryPolicy(max_attempts=3, max_delay=30), hung_timeout=timedelta(hours=2))
    deps: Settings

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        network = Allowlist([*INDEXES, *self.deps.hosts])
        spec = SandboxSpec(image=self.deps.image, memory="2g", pids=512, network=network)
        self.sandbox = self.lifecycle.use(Sandbox(spec, engine=self.deps.engine))
        self.tools = RepositoryTools(self.sandbox)
        self.harness = self.lifecycle.use(
            Harness(
                model=self.deps.model,
                instructions=load_prompt("coding_agent").fill(),
                tools=self.tools.all(),
                limits=Limits(turns=60, seconds=3_600),
            )
        )

    # --- what is called from outside

    async def begin(self, order: Order) -> Progress:
        """Take an order, unless there is one, and go on with what it had given up; returns where the agent is."""
        async with self.transaction():
            if self.state.phase == "new":
                await self.set_state(Progress(phase="working", order=order))
            if self.state.phase not in ("done", "failed") and not await self.list_schedules():
                callback = self.work if self.state.phase == "working" else self.resume
                await self.schedule(0, callback, key=callback.__name__)
        return self.state

    async def progress(self) -> Progress:
        """Return where the agent is."""
        return self.state

    async def give_up(self) -> bool:
        """Leave nothing running; tells whether there is a sandbox, which is kept for the next try."""
        try:
            await self.sandbox.stop()
            return (await self.sandbox.info()).state != "absent"
        except SandboxError:
            return False

    # --- before the break

    async def work(self) -> None:
        """Do what comes before the break."""
        await self._or_fail(self._work())

    async def _work(self) -> None:
        """Clone, install, let the model work, start the server, save, stop, and come back later."""
        order, watcher = self._order(), self.deps.watcher
        if self.state.snapshot is None:
            watcher.step("Starting a sandbox")
            await self.sandbox.ensure_started()
            async with self._once("clone") as is_new:
                if is_new:
                    await self._clone(order.repository)
            project = await self._project()
            async with self._once("install") as is_new:
                if is_new:
                    await self._install(project)
            watcher.step("The model works on the task")
            await self._converse("before", f"The task: {order.task}\n\nIt is a {project.kind} project.")
            pages = await self._serve(project)
            watcher.step("Saving a snapshot and stopping the sandbox")
            saved = await self.sandbox.snapshot("before the break")
            result = self.state.result.model_copy(update={"page": pages})
            await self._note(snapshot=saved.id, result=result)
            watcher.detail(f"snapshot {saved.id}, {saved.size / 1e6:.0f} MB")
        await self.sandbox.stop()
        async with self.transaction():
            schedule = await self.schedule(order.resume_after, self.resume, key="resume")
            await self._note(phase="away", resume_at=schedule.next_run)
        watcher.step(f"Away until {schedule.next_run:%H:%M:%S} UTC; nothing of it runs now, an alarm wakes it")

    async def _clone(self, repository: str) -> None:
        self.deps.watcher.step(f"Cloning {repository}")
        await self.sandbox.files.remove(REPOSITORY)
        await self.sandbox.git.clone(repository, REPOSITORY, token=self.deps.token)
        # What is installed is no change of the repository, whatever its own .gitignore says.
        await self.sandbox.files.write(f"{REPOSITORY}/.git/info/exclude", "\n".join(INSTALLED))
        found = await self.sandbox.exec("git", "log", "-1", "--format=%h %s", cwd=REPOSITORY, check=True)
        self.deps.watcher.detail(found.stdout.strip())

    async def _install(self, project: Project) -> None:
        if not project.install:
            return
        self.deps.watcher.step(f"Installing what the {project.kind} project needs")
        done = await self.sandbox.exec(shell=project.install, cwd=REPOSITORY, timeout=1_800, check=True)
        self.deps.watcher.detail(f"took {done.duration.total_seconds():.1f} s")

    # --- after it

    async def resume(self) -> None:
        """Come back from the snapshot, start the server again, finish the work, and tell what came of it."""
        await self._or_fail(self._resume())

    async def _resume(self) -> None:
        if self.state.phase in ("away", "resuming"):
            await self._note(phase="finishing", result=await self._finish())
        if self.state.phase == "finishing":
            await self._clear_away()
            await self._note(phase="done")
        self.deps.watcher.finished()

    async def _finish(self) -> Result:
        watcher = self.deps.watcher
        if self.state.phase == "away":
            watcher.step("Back: restoring the snapshot into a new sandbox")
            await self.sandbox.destroy()  # the stopped one; everything is in the snapshot
            await self.sandbox.start(snapshot=self.state.snapshot)
            await self._note(phase="resuming")
        else:
            await self.sandbox.ensure_started()
        project = await self._project()
        pages = await self._serve(project)
        watcher.step("The model goes on")
        ended = await self._converse(
            "after", "You were away, and are back: the sandbox was stopped and restored. Go on."
        )
        watcher.step("Running the tests a last time")
        return await self._result(project, ended, pages)

    async def _clear_away(self) -> None:
        if self.deps.keep:
            return
        self.deps.watcher.step("Removing the sandbox")
        await self.sandbox.destroy()
        for saved in await self.sandbox.snapshots.list():
            await self.sandbox.snapshots.delete(saved.id)

    async def _result(self, project: Project, ended: Outcome, pages: list[str]) -> Result:
        await self.sandbox.exec("git", "add", "--intent-to-add", "--all", cwd=REPOSITORY, check=True)
        diff = await self.sandbox.exec(
            "git", "diff", "--no-color", "HEAD", cwd=REPOSITORY, check=True, max_output=_MAX_DIFF
        )
        result = Result(report=ended.text, ended=str(ended), diff=diff.stdout, page=[*self.state.result.page, *pages])
        if not project.test:
            return result
        tests = await self.sandbox.exec(
            shell=project.test, cwd=REPOSITORY, timeout=900, merge_stderr=True, max_output=50_000
        )
        return result.model_copy(update={"tests": tests.stdout, "tests_passed": tests.ok})

    # --- both

    async def _project(self) -> Project:
        files = {entry.name for entry in await self.sandbox.files.list(REPOSITORY)}
        telling = {"Procfile", "package.json"} & files
        contents = {
            name: (await self.sandbox.files.read(f"{REPOSITORY}/{name}")).decode(errors="replace") for name in telling
        }
        project = recognise(files, contents)
        self.tools.test_command = project.test
        return project

    async def _or_fail(self, work: Awaitable[None]) -> None:
        """End for good where another try could only fail in the same way: a replay never says anything else."""
        try:
            await work
        except ModelFailedError as failure:
            if not isinstance(self.deps.model, ReplayModel):
                raise
            await self._note(phase="failed", result=Result(ended=str(failure)))
            self.deps.watcher.finished()

    async def _converse(self, key: str, message: str) -> Outcome:
        """Hand the model a message, once, and wait until it is through."""
        run = await self.harness.submit(message, key=f"{key}-{self.state.failures}")
        async for event in run.stream():
            if isinstance(event, CallEnded):
                self.deps.watcher.detail(f"{event.tool}: {_shortly(event)}")
        outcome = await run.wait()
        if outcome.status == "failed":
            await self._note(failures=self.state.failures + 1)  # the next try is a run of its own
            raise ModelFailedError(outcome.reason)
        self.deps.watcher.detail(outcome.text or str(outcome))
        return outcome

    async def _serve(self, project: Project) -> list[str]:
        """Start the development server unless it runs, and return what it answers; nothing if it can't be started."""
        self.deps.watcher.step("Starting the development server")
        line = f"export PORT={PORT}; {project.serve}"
        known = await self.sandbox.processes.get("dev")
        if known is None or known.info.exit_code is not None:
            known = await self.sandbox.processes.start("dev", "sh", "-c", line, cwd=REPOSITORY)
        try:
            await known.wait_port(PORT, timeout=60)
        except PortTimeoutError as error:
            self.deps.watcher.detail(f"it can't be started: {error}")
            await known.kill()
            return []
        url = await self.sandbox.expose(PORT)
        page = await asyncio.to_thread(_get, url)
        self.deps.watcher.detail(f"{url} answers: {page.splitlines()[0] if page else 'an empty page'}")
        return [page]

    @asynccontextmanager
    async def _once(self, step: str) -> AsyncIterator[bool]:
        """Tell whether a step has yet to be done; leaving the block marks it as done, inside the sandbox."""
        mark = f"{_DONE}/{step}"
        is_new = await self.sandbox.files.stat(mark) is None
        yield is_new
        if is_new:
            await self.sandbox.files.write(mark, "")

    def _order(self) -> Order:
        if self.state.order is None:
            message = f"{self.name} has no order; call begin() first"
            raise ValueError(message)
        return self.state.order

    async def _note(self, **changes: Any) -> None:
        await self.set_state(self.state.model_copy(update=changes))


def host_of(repository: str) -> tuple[str, ...]:
    """Return the host that a repository's URL names, or nothing for a path."""
    host = urlsplit(repository).hostname if "://" in repository else None
    return () if host is None else (host,)


def agent_name(repository: str, task: str) -> str:
    """Return the name under which the same repository and task are found again."""
    digest = hashlib.sha256(f"{repository.rstrip('/')}\n{task}".encode()).hexdigest()
    return f"{repository.rstrip('/').rpartition('/')[2][:60]}-{digest[:12]}"


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            text: str = answer.read(20_000).decode(errors="replace")
            return text
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.reason}"


def _shortly(event: CallEnded) -> str:
    """Return the line of a result that says most: its last, or that it failed."""
    lines = [line for line in event.text.splitlines() if line.strip()]
    last = lines[-1] if lines else "nothing"
    return last if event.ending == "result" else f"{event.ending}, {last}"
