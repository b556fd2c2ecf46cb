"""A bucket on a real S3 server of this machine, and a directory in which a real runner works on its copy."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]  # has no types
import pytest
from moto.server import ThreadedMotoServer

from agentkit.sandbox.buckets.manifest import is_own
from agentkit.sandbox.spec import BucketMount
from tests.sandbox.local_runner import Place


@contextmanager
def s3_server() -> Iterator[str]:
    """Serve S3 on the loopback interface; return the address."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def give_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let boto3 find credentials in the environment."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@dataclass(slots=True)
class World:
    """Both sides.

    Attributes:
        endpoint: Of the server.
        place: Stands for the instance.
        prefix: Of the mount's URL.
        bucket: The bucket's name.
    """

    endpoint: str
    place: Place
    prefix: str = "some/where"
    bucket: str = field(default_factory=lambda: f"agentkit-{secrets.token_hex(6)}")
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        self.client = boto3.session.Session().client("s3", endpoint_url=self.endpoint)
        self.client.create_bucket(Bucket=self.bucket)

    def mount(self, **options: Any) -> BucketMount:
        """Return the mount."""
        url = f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"
        return BucketMount(url, str(self.inside), **{"endpoint": self.endpoint, **options})

    # the bucket

    def put(self, key: str, content: bytes = b"x", *, below: bool = True) -> None:
        """Write an object, below the mount's prefix or anywhere."""
        self.client.put_object(Bucket=self.bucket, Key=self._key(key) if below else key, Body=content)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self.client.delete_object(Bucket=self.bucket, Key=self._key(key))

    def objects(self) -> dict[str, bytes]:
        """Return all objects of the bucket, those of the prefix by their names below it."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        start = self._key("")
        found = {key: self.client.get_object(Bucket=self.bucket, Key=key) for key in keys}
        return {key.removeprefix(start): answer["Body"].read() for key, answer in found.items()}

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    # the sandbox

    @property
    def inside(self) -> Path:
        """Where the mount is."""
        return self.place.root / "data"

    def make_directory(self) -> None:
        """Make the mount, as the engine does."""
        self.inside.mkdir()
        self._own(self.inside)

    def write(self, name: str, content: str | bytes, *, age: timedelta | None = None) -> Path:
        """Write a file inside, as of now or as of some time ago."""
        path = self.inside / name
        for above in reversed(path.relative_to(self.inside).parents):
            if not (self.inside / above).exists():
                (self.inside / above).mkdir()
                self._own(self.inside / above)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self._own(path)
        if age is not None:
            moment = path.stat().st_mtime - age.total_seconds()
            os.utime(path, (moment, moment))
        return path

    def files(self) -> dict[str, str]:
        """Return what is inside; directories end in a slash."""
        found = {}
        for path in sorted(self.inside.rglob("*")):
            name = path.relative_to(self.inside).as_posix()
            if path.is_dir() and not path.is_symlink():
                found[name + "/"] = ""
            elif not is_own(path.name):
                found[name] = path.read_text() if path.is_file() else ""
        return found

    def _own(self, path: Path) -> None:
        if self.place.user is not None:
            os.chown(path, self.place.user, self.place.user, follow_symlinks=False)
