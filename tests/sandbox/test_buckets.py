"""Buckets, with a real S3 server and a real runner, both on this machine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit.errors import BucketError, ConfigurationError
from agentkit.sandbox.buckets.buckets import Buckets
from agentkit.sandbox.buckets.client import PART, Bucket
from agentkit.sandbox.buckets.manifest import NAME
from agentkit.sandbox.buckets.sync import PushReport
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.spec import BucketMount
from tests.sandbox.bucket_world import World, give_credentials, s3_server
from tests.sandbox.local_runner import a_guest, a_place


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Serve S3 to the tests of this file."""
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def world(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return an empty bucket and an empty mount."""
    give_credentials(monkeypatch)
    with a_place() as place:
        world = World(endpoint, place)
        world.make_directory()
        yield world


@pytest.fixture
async def guest(world: World) -> AsyncIterator[Guest]:
    """Return the way in."""
    async with a_guest(world.place) as guest:
        yield guest


@pytest.fixture
async def buckets(world: World) -> AsyncIterator[Buckets]:
    """Return what keeps both the same."""
    buckets = Buckets([world.mount()])
    yield buckets
    await buckets.close()


async def anew(world: World, **options: Any) -> tuple[Buckets, PushReport]:
    """Do what another owner does that attaches to the running instance."""
    buckets = Buckets([world.mount(**options)])
    async with a_guest(world.place) as guest:
        report = await buckets.push(guest)
    return buckets, report


# pulled at start


async def test_bucket_is_there_after_start(world: World, guest: Guest, buckets: Buckets) -> None:
    """All objects below the prefix are files, and nothing else of the bucket is (SPEC 12.11)."""
    world.put("a.txt", b"one")
    world.put("deep/er/b.txt", b"two")
    world.put("empty", b"")
    world.put("folder/", b"")
    world.put("some/wherever", b"no", below=False)
    world.put("other", b"no", below=False)

    await buckets.pull(guest)

    assert world.files() == {
        "a.txt": "one",
        "deep/": "",
        "deep/er/": "",
        "deep/er/b.txt": "two",
        "empty": "",
        "folder/": "",
    }
    assert (world.inside / "a.txt").stat().st_uid == (world.place.user or os.getuid())


async def test_whole_bucket(world: World, guest: Guest) -> None:
    """Without a prefix everything is meant."""
    world.prefix = ""
    world.put("a/b", b"x")
    buckets = Buckets([world.mount()])

    await buckets.pull(guest)
    world.write("c", "y")
    await buckets.push(guest)

    await buckets.close()
    assert world.objects() == {"a/b": b"x", "c": b"y"}


ODD = [
    "with space",
    "größe/ß",
    "a+b&c=d?e#f%20g",
    "quote'\"`$(x)",
    "back\\slash",
    "-dash",
    "~tilde",
    "tab\there",
    "return\rhere",
    "\U0001f4a9",
]


async def test_odd_names_go_both_ways(world: World, guest: Guest, buckets: Buckets) -> None:
    """A key that can be a path is one, and the other way round, whatever characters it has."""
    for number, name in enumerate(ODD):
        world.put(name, str(number).encode())
        world.write("made/" + name, str(number))

    await buckets.pull(guest)

    files, objects = world.files(), world.objects()
    for number, name in enumerate(ODD):
        assert files[name] == str(number)
        assert objects["made/" + name] == str(number).encode()


async def test_keys_that_are_no_paths_are_left_alone(
    world: World, guest: Guest, buckets: Buckets, caplog: pytest.LogCaptureFixture
) -> None:
    """A key that would lead out, or can't be a file, is neither pulled nor touched, and a warning names it."""
    bad = ["../up", "a/../../up", "/abs", "a//b", "./dot", "x/./y", "..", NAME, "n" * 300]
    for key in bad:
        world.put(key, b"evil")
    world.put("both", b"a file")
    world.put("both/below", b"and a directory")
    before = world.objects()

    await buckets.pull(guest)
    world.write("mine", "x")
    await buckets.push(guest)

    assert world.files() == {"both/": "", "both/below": "and a directory", "mine": "x"}
    assert list(world.place.root.glob("up")) == []
    assert world.objects() == {**before, "mine": b"x"}
    assert sum("is left out" in record.message for record in caplog.records) == len(bad) + 1


async def test_large_object_goes_both_ways(world: World, guest: Guest, buckets: Buckets) -> None:
    """An object of many parts arrives whole, in both directions."""
    content = os.urandom(PART * 2 + 12345)
    world.put("down", content)
    world.write("up", content)
    world.write("exact", content[: PART * 2])

    await buckets.pull(guest)

    assert (world.inside / "down").read_bytes() == content
    objects = world.objects()
    assert objects["up"] == content
    assert objects["exact"] == content[: PART * 2]
    assert (await buckets.push(guest)).pushed == 0
    assert world.client.list_multipart_uploads(Bucket=world.bucket).get("Uploads", []) == []


async def test_many_objects(world: World, guest: Guest, buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    """More objects than a page of the listing, and than are fetched ahead, all come, and all changes go."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "50")
    for number in range(120):
        world.put(f"{number % 7}/{number}", str(number).encode())
    await buckets.pull(guest)
    for number in range(0, 120, 5):
        world.write(f"{number % 7}/{number}", "changed")

    report = await buckets.push(guest)

    assert sum(not name.endswith("/") for name in world.files()) == 120
    assert report.pushed == 24


async def test_pull_that_cannot_read_is_an_error(world: World, guest: Guest) -> None:
    """A bucket that isn't there, or a server that doesn't answer, says so, and names the bucket."""
    missing = Buckets([BucketMount("s3://not-there/x", str(world.inside), endpoint=world.endpoint)])
    nobody = Buckets([world.mount(endpoint="http://127.0.0.1:9")])

    with pytest.raises(BucketError, match="s3://not-there/x: NoSuchBucket"):
        await missing.pull(guest)
    with pytest.raises(BucketError, match="EndpointConnectionError"):
        await nobody.pull(guest)

    await missing.close()
    await nobody.close()


# pushed


async def test_changes_are_pushed(world: World, guest: Guest, buckets: Buckets) -> None:
    """New, changed and removed files reach the bucket; what didn't change isn't sent again."""
    for name in ("kept", "changed", "removed", "folder/removed"):
        world.put(name, b"old")
    await buckets.pull(guest)
    world.write("new/file", "new")
    world.write("changed", "now")
    (world.inside / "removed").unlink()
    (world.inside / "folder/removed").unlink()

    first = await buckets.push(guest)
    second = await buckets.push(guest)

    assert world.objects() == {"kept": b"old", "changed": b"now", "new/file": b"new"}
    assert (first.pushed, first.deleted, first.failed) == (2, 2, [])
    assert (second.pushed, second.deleted) == (0, 0)


async def test_change_of_the_same_size_is_noticed(world: World, guest: Guest, buckets: Buckets) -> None:
    """Files are told apart by their time, too; so are those that are written right after each push."""
    world.put("a", b"0000")
    await buckets.pull(guest)
    for number in range(1, 6):
        world.write("a", f"{number:04}")
        await buckets.push(guest)

        assert world.objects()["a"] == f"{number:04}".encode()


async def test_directory_that_became_a_file(world: World, guest: Guest, buckets: Buckets) -> None:
    """Both turns are pushed, one after the other."""
    world.put("a", b"file")
    world.put("b/c", b"below")
    world.put("m/", b"")
    await buckets.pull(guest)
    (world.inside / "a").unlink()
    world.write("a/x", "below")
    (world.inside / "b/c").unlink()
    (world.inside / "b").rmdir()
    world.write("b", "file")
    (world.inside / "m").rmdir()

    await buckets.push(guest)

    assert world.objects() == {"a/x": b"below", "b": b"file"}


async def test_links_and_pipes_are_not_pushed(world: World, guest: Guest, buckets: Buckets) -> None:
    """Only files are; a link that takes a file's place leaves the object as it was."""
    world.put("a", b"file")
    await buckets.pull(guest)
    (world.inside / "a").unlink()
    (world.inside / "a").symlink_to("/etc/passwd")
    (world.inside / "b").symlink_to("/etc")
    os.mkfifo(world.inside / "c")

    await buckets.push(guest)
    await buckets.pull(guest)

    assert world.objects() == {"a": b"file"}
    assert os.readlink(world.inside / "a") == "/etc/passwd"


async def test_files_that_are_being_written_are_not_pushed(world: World, guest: Guest, buckets: Buckets) -> None:
    """Neither the list of what is synced nor the unfinished files of others become objects."""
    await buckets.pull(guest)
    world.write(".a.txt.0123456789ab.agentkit", "half")
    world.write("a.txt", "whole")

    await buckets.push(guest)

    assert world.objects() == {"a.txt": b"whole"}


async def test_name_that_is_no_text_is_left_out(world: World, guest: Guest, buckets: Buckets) -> None:
    """A name that no key can have holds nothing up."""
    await buckets.pull(guest)
    world.write(os.fsdecode(b"bad\xff"), "x")
    world.write("good", "x")

    report = await buckets.push(guest)

    assert (report.pushed, report.failed) == (1, [])
    assert world.objects() == {"good": b"x"}


async def test_read_only_pushes_nothing(world: World, guest: Guest) -> None:
    """With ``read_only`` what is changed inside stays there until the next pull undoes it; new files stay."""
    world.put("a", b"bucket")
    world.put("b", b"bucket")
    buckets = Buckets([world.mount(read_only=True)])
    await buckets.pull(guest)
    world.write("a", "inside")
    (world.inside / "b").unlink()
    world.write("new", "inside")

    await buckets.push(guest)
    before = world.files()
    await buckets.pull(guest)

    await buckets.close()
    assert world.objects() == {"a": b"bucket", "b": b"bucket"}
    assert before == {"a": "inside", "new": "inside"}
    assert world.files() == {"a": "bucket", "b": "bucket", "new": "inside"}


# what others do meanwhile


async def test_changes_of_others_come_with_the_next_start(world: World, guest: Guest, buckets: Buckets) -> None:
    """A second pull brings new and changed objects and removes what is gone; a change made inside wins."""
    for name in ("same", "theirs", "gone", "mine", "both"):
        world.put(name, b"old")
    await buckets.pull(guest)
    world.put("theirs", b"new")
    world.put("added", b"new")
    world.delete("gone")
    world.put("both", b"theirs")
    world.write("mine", "mine")
    world.write("both", "mine")

    await buckets.pull(guest)

    assert world.files() == {"same": "old", "theirs": "new", "added": "new", "mine": "mine", "both": "mine"}
    assert world.objects() == {name: content.encode() for name, content in world.files().items()}


async def test_nothing_is_deleted_that_was_not_pulled(world: World, guest: Guest, buckets: Buckets) -> None:
    """An object that came or changed since the pull survives what is removed inside."""
    world.put("changed", b"old")
    world.put("same", b"old")
    await buckets.pull(guest)
    world.put("changed", b"new")
    world.put("added", b"new")
    (world.inside / "changed").unlink()
    (world.inside / "same").unlink()

    await buckets.push(guest)
    after_push = world.objects()
    await buckets.pull(guest)

    assert after_push == {"changed": b"new", "added": b"new"}
    assert world.files() == {"changed": "new", "added": "new"}


async def test_unreadable_directory_deletes_nothing(world: World, guest: Guest, buckets: Buckets) -> None:
    """What is out of sight is not gone."""
    world.put("a/b", b"x")
    await buckets.pull(guest)
    (world.inside / "a").chmod(0)

    report = await buckets.push(guest)

    (world.inside / "a").chmod(0o755)
    assert world.objects() == {"a/b": b"x"}
    assert report.deleted == 0


async def test_emptied_directory_deletes_nothing(world: World, guest: Guest, buckets: Buckets) -> None:
    """With the list of what was pulled gone as well, nobody knows what was deleted, and the bucket stays."""
    world.put("a", b"x")
    await buckets.pull(guest)
    for name in ("a", NAME):
        (world.inside / name).unlink()
    world.write("b", "new")

    await buckets.push(guest)
    await buckets.push(guest)
    after_push = world.objects()
    await buckets.pull(guest)

    assert after_push == {"a": b"x", "b": b"new"}
    assert world.files() == {"a": "x", "b": "new"}


# after a crash


async def test_next_owner_pushes_what_the_last_one_did_not(world: World, guest: Guest, buckets: Buckets) -> None:
    """Changes made before a crash, removals included, are pushed at the next attach (SPEC 12.11)."""
    for name in ("kept", "removed", "changed"):
        world.put(name, b"old")
    await buckets.pull(guest)
    world.write("changed", "new")
    world.write("added", "new")
    (world.inside / "removed").unlink()

    other, report = await anew(world)

    await other.close()
    assert world.objects() == {"kept": b"old", "changed": b"new", "added": b"new"}
    assert (report.pushed, report.deleted) == (2, 1)


async def test_pull_that_was_cut_off_goes_on(world: World, buckets: Buckets) -> None:
    """An owner that died while it pulled leaves nothing that the next one takes for deleted or changed."""
    for number in range(40):
        world.put(f"{number:02}", bytes(1 << 16))

    async def die() -> None:
        async with a_guest(world.place) as guest:
            pulling = asyncio.create_task(buckets.pull(guest))
            while len(list(world.inside.iterdir())) < 10:
                await asyncio.sleep(0.001)
            pulling.cancel()
            await asyncio.wait([pulling])

    await die()
    there = len(world.files())
    before = world.client.list_objects_v2(Bucket=world.bucket)["Contents"]
    other, report = await anew(world)

    await other.close()
    after = world.client.list_objects_v2(Bucket=world.bucket)["Contents"]
    assert 0 < there < 40
    assert len(world.files()) == 40
    assert (report.pushed, report.deleted, report.failed) == (0, 0, [])
    assert [(found["Key"], found["LastModified"]) for found in after] == [
        (found["Key"], found["LastModified"]) for found in before
    ]


async def test_restored_directory_without_its_list(world: World, guest: Guest, buckets: Buckets) -> None:
    """Files that are there without a list are compared with the bucket: the newer one wins, none is deleted."""
    for name in ("same", "older", "newer"):
        world.put(name, b"bucket")
    await buckets.pull(guest)
    (world.inside / NAME).unlink()
    world.write("older", "inside", age=timedelta(hours=1))
    world.write("newer", "inside!", age=timedelta(hours=-1))
    world.write("only here", "inside")
    other = Buckets([world.mount()])

    report = await other.pull(guest)

    await other.close()
    assert world.files() == {"same": "bucket", "older": "bucket", "newer": "inside!", "only here": "inside"}
    assert world.objects() == {name: content.encode() for name, content in world.files().items()}
    assert report.pushed == 2


EVIL: list[Any] = [
    b"no json",
    b"[]",
    b"\xff\xfe",
    b"[" * 100_000,
    {"version": 2},
    {"version": 1, "url": "s3://other/x", "is_complete": True, "files": {}},
    {"version": 1, "url": None, "is_complete": True, "files": []},
    {"version": 1, "url": None, "is_complete": True, "files": {"a": 1}},
    {"version": 1, "url": None, "is_complete": True, "files": {"a": ["x", 1e999, 0]}},
    {
        "version": 1,
        "url": None,
        "is_complete": True,
        "files": {"../../other": ["etag", 1, 1]},
    },
]


@pytest.mark.parametrize("content", EVIL)
async def test_list_that_somebody_wrote_inside_harms_nothing(world: World, guest: Guest, content: Any) -> None:
    """The list comes out of the sandbox: whatever it says, nothing beyond the prefix is touched, and nothing breaks."""
    world.put("kept", b"x")
    world.put("some/other", b"x", below=False)
    world.put("other", b"x", below=False)
    if isinstance(content, dict):
        content = json.dumps(content).replace("null", json.dumps(world.mount().url))
    world.write(NAME, content)
    before = world.objects()

    for _ in range(2):
        other, report = await anew(world)
        await other.close()
        assert report.failed == []

    assert world.objects() == before


async def test_list_that_is_no_file_harms_nothing(world: World, guest: Guest) -> None:
    """A pipe in its place holds nobody up."""
    os.mkfifo(world.inside / NAME)
    world.put("a", b"x")
    buckets = Buckets([world.mount()])

    async with asyncio.timeout(20):
        await buckets.pull(guest)

    await buckets.close()
    assert world.files() == {"a": "x"}


async def test_file_that_is_too_large_is_left_out(world: World, guest: Guest, caplog: pytest.LogCaptureFixture) -> None:
    """A file of a terabyte, which takes no time to make inside, costs nothing in the bucket; a warning says so."""
    buckets = Buckets([world.mount(max_file_size=1000)])
    world.put("a", b"old")
    await buckets.pull(guest)
    os.truncate(world.write("large", "x"), 1 << 40)
    world.write("a", bytes(1001))
    world.write("b", bytes(1000))

    report = await buckets.push(guest)
    await buckets.pull(guest)

    await buckets.close()
    assert world.objects() == {"a": b"old", "b": bytes(1000)}
    assert report.failed == []
    assert "max_file_size=1,000" in caplog.text


async def test_file_that_grows_without_end_is_given_up(world: World, guest: Guest) -> None:
    """Nor does one that is written to while it is read."""

    class Growing:
        """A guest in which every file is endless."""

        async def read(self, path: str) -> AsyncIterator[bytes]:
            while True:
                yield bytes(1000)

        def __getattr__(self, name: str) -> Any:
            return getattr(guest, name)

    buckets = Buckets([world.mount(max_file_size=100_000)])
    await buckets.pull(guest)
    world.write("a", "x")

    report = await buckets.push(Growing())  # type: ignore[arg-type]  # as much of one as is needed

    await buckets.close()
    assert "grew beyond" in report.failed[0].reason
    assert world.objects() == {}


# failures


async def test_bucket_that_refuses_is_tried_again(
    world: World, guest: Guest, buckets: Buckets, caplog: pytest.LogCaptureFixture
) -> None:
    """A push that fails raises nothing, tells what is left, warns once, and is made up for later."""
    await buckets.pull(guest)
    world.client.delete_bucket(Bucket=world.bucket)
    for number in range(20):
        world.write(f"{number}", "x")

    failed = await buckets.push(guest)
    skipped = await buckets.push(guest)
    again = await buckets.push(guest, insist=True)
    world.client.create_bucket(Bucket=world.bucket)
    made_up = await buckets.push(guest, insist=True)

    assert 3 <= len(failed.failed) < 20
    assert failed.failed[0].path.startswith(str(world.inside))
    assert "NoSuchBucket" in failed.failed[0].reason
    assert skipped == PushReport()
    assert again.failed
    assert (made_up.pushed, made_up.failed) == (20, [])
    assert sum("were not pushed" in record.message for record in caplog.records) == 1


async def test_file_that_cannot_be_read_holds_up_no_other(world: World, guest: Guest, buckets: Buckets) -> None:
    """It is told, the rest is pushed."""
    await buckets.pull(guest)
    world.write("closed", "x").chmod(0)
    world.write("open", "x")

    report = await buckets.push(guest)

    assert [failure.path for failure in report.failed] == [str(world.inside / "closed")]
    assert world.objects() == {"open": b"x"}


async def test_upload_that_breaks_off_leaves_no_parts(world: World) -> None:
    """Parts of an object that didn't become one are removed from the bucket."""
    bucket = Bucket(world.mount().url, world.endpoint)

    async def breaking() -> AsyncIterator[bytes]:
        yield bytes(PART * 2 + 1)
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        await bucket.put("a", breaking(), size=PART * 3)

    bucket.close()
    assert world.objects() == {}
    assert world.client.list_multipart_uploads(Bucket=world.bucket).get("Uploads", []) == []


async def test_pushes_that_wait_are_one(world: World, guest: Guest, buckets: Buckets) -> None:
    """However many commands end at one time, changes are looked for once while one push runs and once after it."""
    await buckets.pull(guest)
    world.write("a", "x")

    reports = await asyncio.gather(*(buckets.push(guest) for _ in range(50)))

    assert len({id(report) for report in reports}) == 1
    assert reports[0].pushed == 1


async def test_caller_that_gives_up_ends_no_push(world: World, guest: Guest, buckets: Buckets) -> None:
    """What a cancelled command had changed is pushed all the same."""
    await buckets.pull(guest)
    world.write("a", "x")
    caller = asyncio.create_task(buckets.push(guest))
    await asyncio.sleep(0)
    caller.cancel()

    await asyncio.wait([caller])
    await buckets.push(guest)

    assert world.objects() == {"a": b"x"}


# settings


async def test_credentials_stay_with_the_owner(world: World, guest: Guest, buckets: Buckets) -> None:
    """Nothing of them is inside (SPEC 12.9)."""
    world.put("a", b"x")
    await buckets.pull(guest)
    await buckets.push(guest)

    assert b"testing" not in b"".join(path.read_bytes() for path in world.place.root.rglob("*") if path.is_file())


@pytest.mark.parametrize("url", ["s3://", "s3://UPPER/x", "s3://a", "s3://a_b/x", "s3://../x", "s3:///x"])
def test_url_that_is_no_bucket_is_refused(url: str) -> None:
    """When the mount is given, not at the first start."""
    with pytest.raises(ConfigurationError, match="s3://bucket"):
        Buckets([BucketMount(url, "/data")])


async def test_host_directories_are_the_engines(tmp_path: Path) -> None:
    """There is nothing to do for them here."""
    buckets = Buckets([BucketMount(str(tmp_path), "/data")])

    assert not buckets.has_any
    await buckets.close()
