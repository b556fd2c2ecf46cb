"""Schema versions: released ones open, migrations apply whole or not at all, newer ones are refused (SPEC 3.6)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentkit.errors import StoreError, StoreTooNewError
from agentkit.store.schema import MIGRATIONS, VERSION_1
from agentkit.store.sqlite import SqliteStore
from agentkit.store.store import AgentId, Batch
from agentkit.testing import FakeClock, ManualRuntime
from tests.store.released import Notes, Plain, Reminder
from tests.store.rows import ADA, activate, job_row, put_away

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = range(1, len(MIGRATIONS) + 1)
ADDS_A_COLUMN = "alter table agents add column region text not null default 'eu'; create table regions (name text);"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "agents.db"


def restore(path: Path, version: int) -> None:
    """Make the store that a release left behind."""
    with sqlite3.connect(path) as connection:
        connection.executescript((FIXTURES / f"v{version}.sql").read_text(encoding="utf-8"))
    connection.close()


def facts(path: Path) -> tuple[int, list[str]]:
    """Return a file's version and its whole content as SQL."""
    with sqlite3.connect(path) as connection:
        version = connection.execute("pragma user_version").fetchone()[0]
        content = list(connection.iterdump())
    connection.close()
    return version, content


async def open_and_close(path: Path, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Open a store with these versions, and close it."""
    store = SqliteStore(path, migrations=migrations)
    await store.open()
    await store.close()


# --- what releases left behind


def test_every_version_has_a_fixture() -> None:
    """A release that changes the schema adds one: ``python -m tests.store.make_fixture``."""
    assert sorted(file.name for file in FIXTURES.iterdir()) == sorted(f"v{version}.sql" for version in VERSIONS)


def schema(path: Path) -> list[str]:
    """Return a file's tables and indexes as SQL, without comments and spacing."""
    with sqlite3.connect(path) as connection:
        texts = [text for (text,) in connection.execute("select sql from sqlite_master where sql is not null")]
    connection.close()
    return sorted(re.sub(r"\s+", "", re.sub("--.*", "", text)).lower() for text in texts)


@pytest.mark.parametrize("version", VERSIONS)
async def test_released_version_is_never_edited(path: Path, version: int) -> None:
    """A file that was made by the release and one made by the steps up to it are alike; changes are new steps."""
    restore(path, version)
    made = path.with_name("made.db")

    await open_and_close(made, MIGRATIONS[:version])

    assert schema(made) == schema(path)


@pytest.mark.parametrize("version", VERSIONS)
async def test_store_of_a_release_opens(path: Path, version: int) -> None:
    """It is brought to the newest schema, and nothing of it gets lost."""
    restore(path, version)

    async with ManualRuntime(Reminder, Plain, store=SqliteStore(path), clock=FakeClock()) as runtime:
        ada = runtime.get(Reminder, "ada")
        jobs = await runtime.store.jobs(AgentId("Plain", "ünï😀"))
        state = await ada.read_state()
        values = await ada.read_values()
        schedules = {schedule.payload["text"]: schedule for schedule in await ada.list_schedules()}
        runs = await ada.history()

    assert facts(path)[0] == len(MIGRATIONS)
    assert [(job.id, job.payload, job.due_ms) for job in jobs] == [("tick", '{"step":1}', 1_767_232_800_000)]
    assert state == Notes(count=5)
    assert values["note"] == "stand up"
    assert values["größe"] == [1, 2.5, None]
    assert {text: schedule.type for text, schedule in schedules.items()} == {
        "daily": "cron",
        "often": "interval",
        "once": "scheduled",
        "paused": "cron",
    }
    assert (schedules["daily"].timezone, schedules["daily"].key) == ("Europe/Berlin", "daily")
    assert [schedule.paused for schedule in schedules.values()].count(True) == 1
    assert sorted(run.outcome for run in runs) == ["completed"] * 4 + ["failed"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_store_of_a_release_goes_on(path: Path, version: int) -> None:
    """What was to come when the old release was stopped comes."""
    restore(path, version)
    clock = FakeClock(datetime(2026, 1, 1, 1, tzinfo=UTC))

    async with ManualRuntime(Reminder, Plain, store=SqliteStore(path), clock=clock) as runtime:
        await runtime.advance(timedelta(days=2))
        values = await runtime.get(Reminder, "ada").read_values()
        ran = await runtime.get(Plain, "ünï😀").ran()

    assert {key: values[key] for key in values if key.startswith("heard")} == {
        "heard daily": "2026-01-02T07:00:00+00:00",
        "heard often": "2026-01-03T01:00:00+00:00",
        "heard once": "2026-01-02T00:00:00+00:00",
        "heard soon": "2026-01-01T00:05:00+00:00",
    }
    assert ran == {"step": 1}


# --- migrations


async def test_new_store_gets_the_newest_version(path: Path) -> None:
    """All versions apply in order to an empty file."""
    await open_and_close(path, (VERSION_1, ADDS_A_COLUMN))

    version, content = facts(path)
    assert version == 2
    assert any("regions" in line for line in content)


async def test_older_store_is_migrated(path: Path) -> None:
    """Only the missing steps run, and the data stays."""
    await fill(path)

    await open_and_close(path, (VERSION_1, ADDS_A_COLUMN))

    version, _ = facts(path)
    assert version == 2
    with sqlite3.connect(path) as connection:
        assert connection.execute("select name, region from agents").fetchall() == [("ada", "eu")]
        assert connection.execute("select value from key_values").fetchall() == [('"kept"',)]
    connection.close()


async def test_migrated_store_is_not_migrated_again(path: Path) -> None:
    """Opening it once more changes nothing."""
    await open_and_close(path, (VERSION_1, ADDS_A_COLUMN))
    before = facts(path)

    await open_and_close(path, (VERSION_1, ADDS_A_COLUMN))

    assert facts(path) == before


@pytest.mark.parametrize("breaks", ["insert into missing values (1);", "this is no SQL;", "create table agents (a);"])
async def test_migration_that_fails_half_way_leaves_the_old_version(path: Path, breaks: str) -> None:
    """The step that failed, the steps before it and the version are one transaction."""
    await fill(path)
    before = facts(path)
    halfway = ADDS_A_COLUMN + "delete from jobs;"

    with pytest.raises(StoreError):
        await open_and_close(path, (VERSION_1, halfway, ADDS_A_COLUMN.replace("region", "zone") + breaks))

    assert facts(path) == before
    store = SqliteStore(path)
    await store.open()
    assert len(await store.jobs(ADA)) == 1
    await store.close()


async def test_first_version_that_fails_leaves_an_empty_file(path: Path) -> None:
    """A new store is whole or nothing, too."""
    with pytest.raises(StoreError):
        await open_and_close(path, (VERSION_1 + "this is no SQL;",))

    assert facts(path)[0] == 0
    assert not [line for line in facts(path)[1] if "create" in line.lower()]
    await open_and_close(path)


async def test_newer_store_is_refused_and_untouched(path: Path) -> None:
    """An old agentkit must not write what a new one has arranged otherwise; not a byte changes."""
    await fill(path)
    await open_and_close(path, (VERSION_1, ADDS_A_COLUMN))
    before = path.read_bytes()

    with pytest.raises(StoreTooNewError, match="has schema version 2, this agentkit knows up to 1") as caught:
        await open_and_close(path, (VERSION_1,))

    assert (caught.value.found, caught.value.known) == (2, 1)
    assert path.read_bytes() == before
    assert {file.name for file in path.parent.iterdir()} <= {"agents.db", "agents.db.lock"}


async def fill(path: Path) -> None:
    """Make a store of version 1 with an agent, a job and a value."""
    store = SqliteStore(path, migrations=(VERSION_1,))
    await store.open()
    node = await store.join("")
    await put_away(store, node, ADA, job_row())
    activated = await activate(store, node)
    await store.commit(activated.lease, activated.row, Batch(values={("host", "note"): '"kept"'})).wait()
    await store.leave(node)
    await store.close()
