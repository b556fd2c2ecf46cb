"""The SQLite schema, version by version; ``migrate`` brings a file up to the newest.

Every released version keeps a fixture under ``tests/store/fixtures`` and a test that opens it.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Sequence

from agentkit.errors import StoreTooNewError, StoreUnavailableError

#: "AgKt": tells a store from any other SQLite file.
APPLICATION_ID = 0x41674B74

VERSION_1 = """
create table meta (key text primary key, value text not null) without rowid;

create table nodes (                     -- one row a boot of a process
  node text primary key,
  address text not null,
  lease_until_ms integer not null,
  suspect integer                        -- the agent whose alarm runs with no other's beside it
) without rowid;

create table agents (                    -- hot and narrow
  agent_id integer primary key autoincrement,   -- never used twice: a lease of a destroyed agent stays dead
  class text not null,
  name text not null,
  node text,                             -- owner; (node, epoch) is the fencing token
  epoch integer not null default 0,
  alarm_ms integer,
  running text,
  memory_strikes integer not null default 0,
  crash_strikes integer not null default 0,
  failed_starts integer not null default 0,
  runs integer not null default 0,
  destroying integer not null default 0,
  unique (class, name)
);
create index agents_due on agents (class, alarm_ms) where node is null and alarm_ms is not null;
create index agents_owned on agents (node) where node is not null;

create table jobs (
  agent_id integer not null,
  id text not null,
  owner text not null,
  function text not null,
  due_ms integer not null,
  payload text not null,
  options text not null,                 -- JSON of what differs from the defaults, or empty
  exclusive integer not null,
  created_ms integer not null,
  run_id text not null,
  primary key (agent_id, id)
) without rowid;

create table key_values (
  agent_id integer not null,
  scope text not null,
  key text not null,
  value text not null,
  primary key (agent_id, scope, key)
) without rowid;

create table history (
  agent_id integer not null,
  seq integer not null,
  run_id text not null,
  job_id text not null,
  owner text not null,
  function text not null,
  due_ms integer not null,
  started_ms integer not null,
  finished_ms integer not null,
  attempts integer not null,
  outcome text not null,
  error text,
  job text,
  pinned integer not null,
  primary key (agent_id, seq)
) without rowid;
"""

MIGRATIONS: tuple[str, ...] = (VERSION_1,)


def check(connection: sqlite3.Connection, location: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Look whether the file can be served, changing nothing.

    Raises:
        StoreTooNewError: A newer agentkit wrote it.
        StoreUnavailableError: It is a database of something else.
    """
    application = connection.execute("pragma application_id").fetchone()[0]
    tables = connection.execute("select count(*) from sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and tables:
        message = f"{location} is not an agentkit store but a database of something else; choose another path"
        raise StoreUnavailableError(message)
    version = connection.execute("pragma user_version").fetchone()[0]
    if version > len(migrations):
        raise StoreTooNewError(location, version, len(migrations))


def migrate(connection: sqlite3.Connection, migrations: Sequence[str] = MIGRATIONS) -> int:
    """Bring a file that passed ``check`` to the newest schema, in one transaction; returns the version it had."""
    version: int = connection.execute("pragma user_version").fetchone()[0]
    if version == len(migrations):
        return version
    steps = "".join(migrations[version:])
    identity = f"insert into meta values ('store_id', '{uuid.uuid4().hex}');" if version == 0 else ""
    try:
        connection.executescript(
            f"begin immediate;{steps}{identity}"
            f"pragma application_id = {APPLICATION_ID};pragma user_version = {len(migrations)};commit;"
        )
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    return version
