"""Opening a file: who may, what is refused, and what a refusal leaves untouched (SPEC 2.11, 3.6, 19)."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentkit import Agent, Runtime
from agentkit.errors import ConfigurationError, StoreInUseError, StoreUnavailableError
from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import AgentRow, Batch
from tests.store.rows import activate, history_row, job_row, puts

ROOT = Path(__file__).parent.parent.parent


class Bot(Agent):
    """Has a note."""

    async def note(self, text: str) -> None:
        """Store a note."""
        await self.storage.put("note", text)

    async def read(self) -> str | None:
        """Return the note."""
        note: str | None = await self.storage.get("note")
        return note


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "agents.db"


@contextmanager
def holding(path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Have another process hold the store open."""
    command = [sys.executable, "-m", "tests.store.hold_store", str(path), *options]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store open."""
    with holding(path) as process:
        yield process


async def make_store(path: Path, **values: str) -> None:
    """Make a store with an agent that has these values, and close it."""
    store = SqliteStore(path)
    await store.open()
    lease = (await activate(store, await store.join(""))).lease
    rows = {("host", key): value for key, value in values.items()}
    await store.commit(lease, AgentRow(), Batch(values=dict(rows)), release=True).wait()
    await store.close()


async def refusal(path: Path) -> str:
    """Return why the store can't be opened."""
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailableError) as caught:
        await store.open()
    await store.close()
    return str(caught.value)


# --- a file of one's own


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
async def test_files_are_readable_by_nobody_else(path: Path) -> None:
    """Whatever the umask: database, log, shared memory and lock."""
    store = SqliteStore(path)
    umask = os.umask(0)
    try:
        await store.open()
        await store.join("")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(umask)
        await store.close()

    assert set(modes) == {"agents.db", "agents.db-wal", "agents.db-shm", "agents.db.lock"}
    assert set(modes.values()) == {0o600}


async def test_missing_folders_are_made(tmp_path: Path) -> None:
    """A path below folders that don't exist yet is fine."""
    await make_store(tmp_path / "deep" / "down" / "agents.db")

    assert (tmp_path / "deep" / "down" / "agents.db").exists()


async def test_location_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that changes its folder later still means the same file."""
    monkeypatch.chdir(tmp_path)

    assert SqliteStore("agents.db").location == str(tmp_path / "agents.db")


async def test_memory_store_is_gone_when_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it stays on the disk, and another one is another store."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store, other = SqliteStore(":memory:"), SqliteStore(":memory:")
    await store.open()
    await other.open()
    await activate(store, await store.join(""))

    listed = await other.agents()
    await store.close()
    await other.close()

    assert listed == []
    assert list(tmp_path.iterdir()) == []


def test_unknown_durability_is_refused(path: Path) -> None:
    """A typing error must not silently mean less than asked for."""
    with pytest.raises(ConfigurationError, match="durability"):
        SqliteStore(path, durability="fast")  # type: ignore[arg-type]  # that is what is tested


async def test_closed_store_says_that_it_is_not_open(path: Path) -> None:
    """Neither reads nor writes reach a closed file."""
    store = SqliteStore(path)

    with pytest.raises(StoreUnavailableError, match="not open"):
        await store.join("")
    with pytest.raises(StoreUnavailableError, match="not open"):
        await store.agents()


async def test_store_can_be_opened_again(path: Path) -> None:
    """Closing and opening twice changes nothing; what is stored is there."""
    store = SqliteStore(path)
    await store.open()
    await store.open()
    lease = (await activate(store, await store.join(""))).lease
    await store.commit(lease, AgentRow(), Batch(values={("host", "key"): "1"})).wait()
    await store.close()
    await store.close()

    await store.open()

    lease = (await activate(store, await store.join(""))).lease
    assert await store.value(lease, "host", "key") == "1"
    await store.close()


async def test_destroyed_agent_leaves_no_row_in_any_table(path: Path) -> None:
    """Nor one that nobody could ask for any more."""
    store = SqliteStore(path)
    await store.open()
    lease = (await activate(store, await store.join(""))).lease
    batch = puts(job_row())
    batch.values.update({("host", "key"): "1", ("state", ""): "2"})
    batch.history.append(history_row("run"))
    await store.commit(lease, AgentRow(alarm_ms=1_000, runs=1), batch).wait()

    await store.commit(lease, AgentRow(), Batch(destroy=True)).wait()
    await store.close()

    with sqlite3.connect(path) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type='table'")]
        filled = {name for name in tables if connection.execute(f"select 1 from {name}").fetchone()}
    connection.close()
    assert {"agents", "jobs", "key_values", "history"} <= set(tables)
    assert filled == {"meta", "nodes", "sqlite_sequence"}


# --- one process at a time


async def test_second_process_is_refused(path: Path, holder: subprocess.Popen[str]) -> None:
    """Two schedulers on one file would run jobs twice; the second one learns so at once."""
    with pytest.raises(StoreInUseError, match="in use by another agentkit process") as caught:
        await SqliteStore(path).open()

    assert caught.value.path == str(path)
    assert holder.poll() is None


async def test_second_process_is_refused_by_any_name_of_the_file(
    path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A symbolic link, or a way round through another folder, is the same store."""
    link = path.parent / "link.db"
    link.symlink_to(path)
    folder = path.parent / "folder"
    folder.symlink_to(path.parent)
    (path.parent / "deep").mkdir()
    monkeypatch.chdir(path.parent)

    for name in (link, folder / path.name, Path(path.name), Path("deep") / ".." / path.name):
        with pytest.raises(StoreInUseError):
            await SqliteStore(name).open()


async def test_store_is_free_when_its_process_was_killed(path: Path, holder: subprocess.Popen[str]) -> None:
    """A lock dies with its holder, however it dies; there is nothing to clean up."""
    holder.send_signal(signal.SIGKILL)
    holder.wait()

    await make_store(path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
async def test_store_is_free_when_its_process_was_killed_but_not_its_children(path: Path) -> None:
    """Workers of a process pool outlive a kill; they must not keep the lock."""
    with holding(path, "fork") as process:
        with pytest.raises(StoreInUseError):
            await SqliteStore(path).open()

        process.kill()
        process.wait()

        await make_store(path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks otherwise")
async def test_file_system_without_locks_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no other process, and the message doesn't say so."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)

    assert os.strerror(errno.ENOLCK) in await refusal(path)


async def test_second_store_of_one_process_is_refused(path: Path) -> None:
    """The same holds inside one process."""
    store = SqliteStore(path)
    await store.open()

    with pytest.raises(StoreInUseError):
        await SqliteStore(path).open()

    await store.close()
    await make_store(path)


# --- what is no store


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("version", [0, 1, 99])
async def test_database_of_something_else_is_refused_and_untouched(path: Path, journal: str, version: int) -> None:
    """Not a byte of it changes, even where its own version looks like one of ours and it has a table ``meta``."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"pragma journal_mode={journal}")
        connection.execute("create table meta (key text, value text)")
        connection.execute("insert into meta values ('theirs', 'yes')")
        connection.execute(f"pragma user_version={version}")
    connection.close()
    before = path.read_bytes()

    reason = await refusal(path)

    assert "not an agentkit store but a database of something else" in reason
    assert str(path) in reason
    assert path.read_bytes() == before


async def test_file_that_is_no_database_is_refused_and_untouched(path: Path) -> None:
    """A mistyped path destroys nothing."""
    path.write_text("dear diary, " * 1_000)

    reason = await refusal(path)

    assert "not a SQLite database: choose another path" in reason
    assert path.read_text() == "dear diary, " * 1_000


async def test_folder_is_refused(path: Path) -> None:
    """So is a folder."""
    path.mkdir()

    assert "can't be opened" in await refusal(path)


async def test_path_below_a_file_is_refused(path: Path) -> None:
    """And a file where a folder should be."""
    path.write_text("no folder")

    assert "can't be" in await refusal(path / "agents.db")


# --- damage


def damage(path: Path, start: int, end: int) -> bytes:
    """Overwrite a part of a file and return what it holds now."""
    content = bytearray(path.read_bytes())
    content[start:end] = b"\xa5" * len(content[start:end])
    path.write_bytes(content)
    return bytes(content)


async def test_damaged_header_is_refused_and_never_replaced(path: Path) -> None:
    """The data behind it may still be saved by someone who knows how."""
    await make_store(path, note='"important"')
    left = damage(path, 0, 100)

    reason = await refusal(path)

    assert str(path) in reason
    assert "damaged" in reason or "not a SQLite database" in reason
    assert path.read_bytes() == left


async def test_damaged_pages_are_reported_and_never_replaced(path: Path) -> None:
    """Where damage shows only later, starting says so, and leaves the file as it is and free."""
    await make_store(path, **{f"note{number}": '"important"' for number in range(1_000)})
    left = damage(path, 4_096, path.stat().st_size)

    with pytest.raises(StoreUnavailableError, match=r"damaged: restore a backup"):
        async with Runtime(Bot, store=SqliteStore(path)):
            pass

    assert path.stat().st_size == len(left)
    assert path.read_bytes()[4_096:] == left[4_096:]


async def test_runtime_that_could_not_start_lets_go_of_the_store(path: Path) -> None:
    """After the backup is back, the same process can start on it."""
    await make_store(path, note='"important"')
    backup = path.read_bytes()
    damage(path, 4_096, len(backup))
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailableError):
        await Runtime(Bot, store=store).start()

    path.write_bytes(backup)

    async with Runtime(Bot, store=SqliteStore(path)) as runtime:
        assert await runtime.get(Bot, "ada").read() == "important"


async def test_file_cut_short_is_reported(path: Path) -> None:
    """Half a file is a damaged file, not a smaller one."""
    await make_store(path, **{f"note{number}": '"important"' for number in range(1_000)})
    os.truncate(path, path.stat().st_size // 8192 * 4096)

    with pytest.raises(StoreUnavailableError, match="damaged"):
        async with Runtime(Bot, store=SqliteStore(path)) as runtime:
            await runtime.get(Bot, "ada").read()


# --- permissions


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can reach (pytest's own ones they can't)."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def attempt(path: Path) -> str:
    """Open the store in a process without privileges, and return what it printed."""
    command = [sys.executable, "-m", "tests.store.open_unprivileged", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


unix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")


@unix_only
async def test_file_in_a_folder_that_may_be_written_opens(shared_folder: Path) -> None:
    """What the next tests forbid works where it is allowed."""
    shared_folder.chmod(0o777)

    assert attempt(shared_folder / "agents.db") == "opened"


@unix_only
async def test_read_only_file_is_refused(shared_folder: Path) -> None:
    """It is found out when opening, not at the first job."""
    path = shared_folder / "agents.db"
    await make_store(path)
    path.with_name("agents.db.lock").unlink()
    path.chmod(0o444)
    shared_folder.chmod(0o777)

    reason = attempt(path)

    assert reason.startswith(f"StoreUnavailableError: {path}")
    assert "it is read-only: check the permissions" in reason


@unix_only
async def test_read_only_folder_is_refused(shared_folder: Path) -> None:
    """SQLite needs files beside the database."""
    path = shared_folder / "agents.db"
    await make_store(path)
    path.with_name("agents.db.lock").unlink()
    path.chmod(0o666)
    shared_folder.chmod(0o555)

    reason = attempt(path)

    assert reason.startswith(f"StoreUnavailableError: {path}")
    assert "permissions" in reason


@unix_only
async def test_file_that_can_not_be_made_is_refused(shared_folder: Path) -> None:
    """The message names the folder whose permissions matter."""
    shared_folder.chmod(0o555)

    reason = attempt(shared_folder / "agents.db")

    assert reason.startswith("StoreUnavailableError: ")
    assert f"can't be made: Permission denied; check the permissions of {shared_folder}" in reason


@unix_only
@pytest.mark.parametrize("exists", [True, False], ids=["existing", "new"])
async def test_folder_that_can_not_be_entered_is_refused(shared_folder: Path, exists: bool) -> None:
    """Whether a file is in there can't even be asked."""
    folder = shared_folder / "private"
    folder.mkdir()
    if exists:
        await make_store(folder / "agents.db")
    folder.chmod(0o000)

    reason = attempt(folder / "agents.db")
    folder.chmod(0o700)

    assert reason.startswith("StoreUnavailableError: ")
    assert "permissions" in reason


@unix_only
async def test_folder_that_can_not_be_made_is_refused(shared_folder: Path) -> None:
    """Nor can one be made in there."""
    shared_folder.chmod(0o555)

    reason = attempt(shared_folder / "deep" / "agents.db")

    assert reason.startswith("StoreUnavailableError: ")
    assert "Permission denied" in reason
