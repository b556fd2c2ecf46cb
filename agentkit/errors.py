"""Every error agentkit raises, under one root.

AgentKitError
├── ConfigurationError            something was put together wrongly; fix the code
│   └── CapabilityError
├── AgentError
│   ├── AgentNameError
│   ├── AgentCallError            a call that the stub can't carry
│   ├── AgentDestroyedError
│   └── AgentGoneError            this instance was evicted, crashed or given up; it can't write any more
├── RuntimeClosedError
├── StateError
├── TransactionConflictError
├── PayloadError                  a value that JSON can't carry or an annotation refuses
├── QuotaError
├── JobError
│   ├── JobOwnedByOtherError
│   ├── JobTimeoutError
│   └── UnknownRunError
├── ScheduleError
│   ├── CronError
│   ├── ParseError                a sentence no schedule could be made of
│   ├── ScheduleNotClearError
│   └── NothingToScheduleError
├── HarnessError
│   ├── ModelError                a language model gave no answer that can be used
│   │   ├── ContextOverflowError  the request is longer than the model's context
│   │   └── ReplayMismatchError   a replay was asked something else than was recorded
│   ├── ToolError                 what a tool raises to tell the model why it failed
│   └── RunEndedError             a run ended without the answer that was asked for
├── StoreError
│   ├── FencedError
│   ├── StoreInUseError
│   ├── StoreTooNewError
│   └── StoreUnavailableError     disk full, read-only, damaged
└── SandboxError
    ├── EngineUnavailableError    no Docker, no bubblewrap
    ├── UnsupportedByEngineError
    ├── ImageError
    ├── NameInUseError
    ├── SandboxRunningError
    ├── SandboxStoppedError
    ├── SandboxConnectionError
    ├── SandboxBusyError
    ├── SpecMismatchError
    ├── SnapshotNotFoundError
    ├── CommandNotFoundError
    ├── CommandFailedError        only with check=True
    ├── ProcessLimitError
    ├── ProcessExistsError
    ├── BucketError
    ├── PortTimeoutError          nothing listens on a port
    └── SandboxFileError          and one a kind, each an OSError of Python's too
"""

from __future__ import annotations

import errno
from datetime import timedelta
from typing import Any


class AgentKitError(Exception):
    """Root of every error agentkit raises."""


class ConfigurationError(AgentKitError):
    """Something was put together wrongly: an option, a class, a URL."""


class CapabilityError(ConfigurationError):
    """A capability was installed too late, or two share an id."""


class AgentError(AgentKitError):
    """A call to an agent could not be carried out."""


class AgentNameError(AgentError, ValueError):
    """A name that no agent can have.

    Attributes:
        name: What was given.
    """

    def __init__(self, name: object, reason: str) -> None:
        self.name = name
        shown = repr(name)
        if len(shown) > 60:
            shown = f"{shown[:50]}… ({len(shown)} characters)"
        super().__init__(f"agent name {shown} {reason}; use 1 to 1,024 bytes of text without control characters")


class AgentCallError(AgentError, TypeError):
    """Only public coroutine methods can be called through a stub."""


class AgentDestroyedError(AgentError):
    """The agent is being destroyed.

    Attributes:
        agent: ``Class/name``.
    """

    def __init__(self, agent: str) -> None:
        self.agent = agent
        super().__init__(f"{agent} is being destroyed; once that is done, a new call starts an empty agent")


class AgentGoneError(AgentError):
    """This instance, or this run of it, lost the right to write.

    Attributes:
        agent: ``Class/name``.
    """

    def __init__(self, agent: str, reason: str) -> None:
        self.agent = agent
        super().__init__(f"{agent} can't write any more: {reason}; reach the live instance through runtime.get()")


class RuntimeClosedError(AgentKitError, RuntimeError):
    """The runtime is not serving: not started yet, draining, or closed."""


class StateError(AgentKitError, ValueError):
    """The stored state doesn't fit the state model any more.

    Attributes:
        agent: ``Class/name``.
        fields: Dotted paths of what doesn't fit.
    """

    def __init__(self, agent: str, fields: list[str], detail: str) -> None:
        self.agent = agent
        self.fields = fields
        super().__init__(
            f"state of {agent} doesn't fit its model at {', '.join(fields)}: {detail}; "
            "define migrate_state(raw) to convert it"
        )


class TransactionConflictError(AgentKitError):
    """Something a transaction had read was changed by other code before it was left.

    Attributes:
        changed: What was read and changed since.
    """

    def __init__(self, agent: str, changed: list[str]) -> None:
        self.changed = changed
        super().__init__(f"transaction of {agent} stored nothing: {', '.join(changed)} changed meanwhile; run it again")


class PayloadError(AgentKitError, ValueError):
    """A value can't be stored as JSON, or its annotation refuses it.

    Attributes:
        path: Where in the value, such as ``payload.items[3]``.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")


class QuotaError(AgentKitError, ValueError):
    """A safety limit was reached.

    Attributes:
        quota: Name of the option that raises it.
        limit: Its value.
    """

    def __init__(self, quota: str, limit: int, what: str) -> None:
        self.quota = quota
        self.limit = limit
        super().__init__(f"{what}; the limit is {quota}={limit:,}, raise it if this is meant")


class JobError(AgentKitError):
    """A job could not be stored or run."""


class JobOwnedByOtherError(JobError):
    """A job id is already in use by another owner.

    Attributes:
        job_id: The id that was pushed.
        owner: Who holds that id now.
    """

    def __init__(self, job_id: str, owner: str) -> None:
        self.job_id = job_id
        self.owner = owner
        super().__init__(f"job id {job_id!r} belongs to {owner!r}; push under another id")


class JobTimeoutError(JobError, TimeoutError):
    """A run took longer than its ``timeout`` and was cancelled.

    Attributes:
        job_id: The job.
        seconds: Its timeout.
    """

    def __init__(self, job_id: str, seconds: float) -> None:
        self.job_id = job_id
        self.seconds = seconds
        super().__init__(f"job {job_id!r} ran longer than its timeout of {seconds:g} s")


class UnknownRunError(JobError, LookupError):
    """No run with this id can be brought back.

    Attributes:
        run_id: What was asked for.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"no failed or set-aside run {run_id!r}; `agentkit history` lists those there are")


class ScheduleError(AgentKitError, ValueError):
    """A schedule that can't be made as asked."""


class CronError(ScheduleError):
    """A cron expression that is malformed or never fires.

    Attributes:
        expression: What was given.
    """

    def __init__(self, expression: str, reason: str) -> None:
        self.expression = expression
        super().__init__(f"cron {expression!r} {reason}")


class ParseError(ScheduleError):
    """No schedule could be made of a sentence."""


class ScheduleNotClearError(ScheduleError):
    """The request needs an answer first.

    Attributes:
        question: What to ask the person.
    """

    def __init__(self, question: str) -> None:
        self.question = question
        super().__init__(question)


class NothingToScheduleError(ScheduleError):
    """The request asks for no schedule at all."""

    def __init__(self) -> None:
        super().__init__("the request asks for no schedule; check plan.when.type before scheduling it")


class HarnessError(AgentKitError):
    """A harness can't do what was asked of it."""


class ModelError(HarnessError):
    """A language model gave no answer that can be used.

    Attributes:
        is_passing: The same request may work later.
        wait: How long its server asks to wait, if it does.
    """

    def __init__(self, message: str, *, is_passing: bool = False, wait: timedelta | None = None) -> None:
        self.is_passing = is_passing
        self.wait = wait
        super().__init__(message)


class ContextOverflowError(ModelError):
    """A request is longer than the model's context: shorten it and send it again."""


class ReplayMismatchError(ModelError):
    """A replay was asked something else than was recorded: no model is there to answer it."""


class ToolError(HarnessError):
    """A tool failed: raise it in a tool to have the model told this message, and nothing else."""


class RunEndedError(HarnessError):
    """A run ended without the answer that was asked for: stopped by a limit, failed or cancelled.

    Attributes:
        outcome: How it ended, with the text there is (an ``agentkit.harness.Outcome``).
    """

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome
        super().__init__(f"the run ended without an answer: {outcome}; run.wait() gives its outcome without raising")


class StoreError(AgentKitError):
    """The store could not do what was asked."""


class FencedError(StoreError):
    """Another owner has taken the agent over; this write changed nothing.

    Attributes:
        agent: ``Class/name``.
    """

    def __init__(self, agent: str) -> None:
        self.agent = agent
        super().__init__(f"{agent} has another owner now; this instance can't write any more")


class StoreInUseError(StoreError):
    """Another process has the store open.

    Attributes:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} is in use by another agentkit process; stop it first, or give this one a store of its own"
        )


class StoreTooNewError(StoreError):
    """The store was written by a newer agentkit.

    Attributes:
        found: Schema version in the file.
        known: Newest schema version this agentkit can read.
    """

    def __init__(self, path: str, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"{path} has schema version {found}, this agentkit knows up to {known}; upgrade agentkit "
            "(nothing was changed)"
        )


class StoreUnavailableError(StoreError):
    """The file can't be read or written: disk full, read-only, damaged.

    Attributes:
        location: The store, if it is known.
    """

    def __init__(self, message: str, location: str | None = None) -> None:
        self.location = location
        super().__init__(message)


class SandboxError(AgentKitError):
    """Something about a sandbox went wrong."""


class EngineUnavailableError(SandboxError):
    """No engine for sandboxes can be used.

    Attributes:
        tried: What was tried, and what it said.
        mends: What may help, one sentence each.
    """

    def __init__(self, tried: list[str], mends: list[str]) -> None:
        self.tried = tried
        self.mends = mends
        super().__init__(f"no engine for sandboxes: {'; '.join(tried)}. {' '.join(mends)}")


class UnsupportedByEngineError(SandboxError):
    """The engine can't do what is asked.

    Attributes:
        engine: Its name.
        feature: What it lacks.
    """

    def __init__(self, engine: str, feature: str, mend: str) -> None:
        self.engine = engine
        self.feature = feature
        super().__init__(f"the engine {engine} can't do this ({feature}); {mend}")


class ImageError(SandboxError):
    """An image doesn't exist, can't be fetched, or can't host a sandbox.

    Attributes:
        image: Its name.
    """

    def __init__(self, image: str, reason: str) -> None:
        self.image = image
        super().__init__(f"image {image!r}: {reason}")


class NameInUseError(SandboxError):
    """An instance of this name exists already, or is being removed.

    Attributes:
        name: The engine's name for it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"an instance {name!r} exists already")


class SandboxRunningError(SandboxError):
    """``start()`` was called while the sandbox runs.

    Attributes:
        agent: ``Class/name``.
    """

    def __init__(self, agent: str) -> None:
        self.agent = agent
        super().__init__(
            f"the sandbox of {agent} runs; call ensure_started() to go on with it, or stop() or destroy() first"
        )


class SandboxStoppedError(SandboxError):
    """The sandbox doesn't run, or stopped meanwhile.

    Attributes:
        reason: Why, as in ``Stopped.reason``, where it is known.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the sandbox does not run ({reason}); ensure_started() starts it again")


class SandboxConnectionError(SandboxError, ConnectionError):
    """The way into the sandbox broke while it runs; commands under way were killed. The next call opens it anew."""


class SandboxBusyError(SandboxError):
    """The engine holds the sandbox for something else at the moment; try again."""


class BucketError(SandboxError):
    """A bucket can't be reached, or refuses.

    Attributes:
        url: The bucket, as in ``BucketMount.url``.
    """

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        super().__init__(f"bucket {url}: {reason}")


class SpecMismatchError(SandboxError):
    """The sandbox exists with another spec.

    Attributes:
        agent: ``Class/name``.
    """

    def __init__(self, agent: str) -> None:
        self.agent = agent
        super().__init__(
            f"the sandbox of {agent} was made with another spec; ensure_started(replace=True) saves its files and "
            "starts anew from them, start() starts from the image"
        )


class SnapshotNotFoundError(SandboxError, LookupError):
    """There is no such snapshot: deleted, expired, or of another engine.

    Attributes:
        snapshot: Its id.
    """

    def __init__(self, snapshot: str) -> None:
        self.snapshot = snapshot
        super().__init__(f"no snapshot {snapshot!r}; it was deleted, has expired, or belongs to another engine")


class CommandNotFoundError(SandboxError, FileNotFoundError):
    """The sandbox has no such program.

    Attributes:
        program: The first word of the command.
    """

    def __init__(self, program: str, mend: str = "a line for a shell goes to exec(shell=…)") -> None:
        self.program = program
        super().__init__(f"no program {program!r} in the sandbox; {mend}")


class CommandFailedError(SandboxError):
    """A command run with ``check=True`` failed.

    Attributes:
        command: Program and arguments.
        result: All that is known of it, an ``ExecResult``.
    """

    def __init__(self, command: str, result: Any) -> None:
        self.command = command
        self.result = result
        how = "timed out" if result.timed_out else f"ended with {result.exit_code}"
        last = (result.stderr or result.stdout).strip()[-300:]
        super().__init__(f"{command!r} {how}{': ' if last else ''}{last}")


class ProcessLimitError(SandboxError):
    """The sandbox has as many processes as it may have, and can start no other."""

    def __init__(self) -> None:
        super().__init__("the sandbox has as many processes as SandboxSpec.pids allows; end some, or allow more")


class ProcessExistsError(SandboxError):
    """A background process of this name runs already.

    Attributes:
        name: The process's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"a process {name!r} runs already; kill it first, or choose another name")


class PortTimeoutError(SandboxError, TimeoutError):
    """Nothing in the sandbox accepted connections on a port in time.

    Attributes:
        port: The port.
        log: The last that the process has printed.
    """

    def __init__(self, port: int, why: str, log: str) -> None:
        self.port = port
        self.log = log
        super().__init__(f"nothing listens on port {port} ({why}){': ' if log else ''}{log}")


class SandboxFileError(SandboxError, OSError):
    """A file operation in the sandbox failed; subclasses are those of ``OSError`` too.

    Attributes:
        path: The file.
    """

    def __init__(self, path: str, number: int, reason: str) -> None:
        self.path = path
        OSError.__init__(self, number, reason, path)

    @staticmethod
    def of(path: str, number: int, reason: str) -> SandboxFileError:
        """Return the error for an error number of the system."""
        return _FILE_ERRORS.get(number, SandboxFileError)(path, number, reason)


class SandboxFileNotFoundError(SandboxFileError, FileNotFoundError):
    """There is no such file."""


class SandboxFileExistsError(SandboxFileError, FileExistsError):
    """There is something already."""


class SandboxNotADirectoryError(SandboxFileError, NotADirectoryError):
    """A directory was expected."""


class SandboxIsADirectoryError(SandboxFileError, IsADirectoryError):
    """A file was expected."""


class SandboxPermissionError(SandboxFileError, PermissionError):
    """The sandbox's user may not do this."""


_FILE_ERRORS: dict[int, type[SandboxFileError]] = {
    errno.ENOENT: SandboxFileNotFoundError,
    errno.EEXIST: SandboxFileExistsError,
    errno.ENOTDIR: SandboxNotADirectoryError,
    errno.EISDIR: SandboxIsADirectoryError,
    errno.EACCES: SandboxPermissionError,
    errno.EPERM: SandboxPermissionError,
    errno.EROFS: SandboxPermissionError,
}
