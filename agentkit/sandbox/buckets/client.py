"""An S3-compatible bucket, for ``buckets.py``: objects listed, read and written a piece at a time, in threads.

The credentials are those that boto3 finds for the owner's process; nothing of them goes anywhere else.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from agentkit.errors import BucketError, ConfigurationError

#: Objects up to this size are written at once, larger ones in parts.
PART: Final = 8 << 20
#: As many parts as S3 allows, less some for a file that grows meanwhile.
_PARTS: Final = 9_000
_PIECE: Final = 1 << 20
_THREADS: Final = 8
_URL: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?", re.DOTALL)
_ABSENT: Final = frozenset({"404", "NoSuchKey", "NotFound"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteObject:
    """An object of a bucket.

    Attributes:
        key: Its name within the prefix.
        size: Bytes.
        etag: Tells one content of it from another.
        modified_at: Seconds since the epoch, whole.
    """

    key: str
    size: int
    etag: str
    modified_at: int


class Bucket:
    """The objects of a bucket below a prefix. Every method raises ``BucketError`` when the bucket can't be used."""

    def __init__(self, url: str, endpoint: str | None = None) -> None:
        """Reach for nothing yet.

        Args:
            url: ``s3://bucket/prefix``.
            endpoint: Address of an S3-compatible server; None means AWS, or what boto3's settings name.

        Raises:
            ConfigurationError: The URL is none.
        """
        found = _URL.fullmatch(url)
        if found is None:
            raise ConfigurationError(f"BucketMount.url must be s3://bucket or s3://bucket/prefix, got {url!r}")
        self.url = url
        self._name = found[1]
        prefix = (found[2] or "").strip("/")
        self._prefix = prefix + "/" if prefix else ""
        self._endpoint = endpoint
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agentkit-bucket")
        self._client: Any = None
        self._connecting = asyncio.Lock()

    async def objects(self) -> AsyncGenerator[RemoteObject, None]:
        """Yield all objects, by key."""
        token: dict[str, Any] = {}
        while True:
            page = await self._call("list_objects_v2", Prefix=self._prefix, **token)
            for found in page.get("Contents", ()):
                yield self._object(found["Key"], found["Size"], found["ETag"], found["LastModified"])
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    async def find(self, key: str) -> RemoteObject | None:
        """Return an object as it is now, or None."""
        found = await self._call("head_object", absent_is_none=True, Key=self._prefix + key)
        if found is None:
            return None
        return self._object(self._prefix + key, found["ContentLength"], found["ETag"], found["LastModified"])

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[tuple[RemoteObject, AsyncIterator[bytes]] | None]:
        """Give an object and its content, or None if it is gone."""
        found = await self._call("get_object", absent_is_none=True, Key=self._prefix + key)
        if found is None:
            yield None
            return
        about = self._object(self._prefix + key, found["ContentLength"], found["ETag"], found["LastModified"])
        try:
            yield about, self._content(found["Body"], about)
        finally:
            found["Body"].close()

    async def put(self, key: str, content: AsyncIterator[bytes], *, size: int) -> str:
        """Write an object, whole or not at all.

        Args:
            key: Its name.
            content: What it is to hold; of a large one no more than a part is in memory.
            size: How much that is likely to be, in bytes.

        Returns:
            Its etag.
        """
        async with aclosing(_parts(content, max(PART, -(-size // _PARTS)))) as parts:
            first = await anext(parts, b"")
            second = await anext(parts, None)
            if second is None:
                return str((await self._call("put_object", Key=self._prefix + key, Body=first))["ETag"])
            return await self._put_parts({"Key": self._prefix + key}, first, second, parts)

    async def _put_parts(self, where: dict[str, Any], first: bytes, second: bytes, rest: AsyncIterator[bytes]) -> str:
        upload = {**where, "UploadId": (await self._call("create_multipart_upload", **where))["UploadId"]}
        is_complete = False
        try:
            etags = [await self._put_part(upload, 1, first), await self._put_part(upload, 2, second)]
            async for part in rest:
                etags.append(await self._put_part(upload, len(etags) + 1, part))
            written = [{"ETag": etag, "PartNumber": number} for number, etag in enumerate(etags, 1)]
            done = await self._call("complete_multipart_upload", MultipartUpload={"Parts": written}, **upload)
            is_complete = True
            return str(done["ETag"])
        finally:
            if not is_complete:
                # Parts that belong to nothing cost money for ever.
                await self._call("abort_multipart_upload", absent_is_none=True, **upload)

    async def delete(self, key: str) -> None:
        """Remove an object; no error if there is none."""
        await self._call("delete_object", Key=self._prefix + key)

    def close(self) -> None:
        """Let go of connections and threads."""
        if self._client is not None:
            self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _put_part(self, upload: dict[str, Any], number: int, part: bytes) -> str:
        return str((await self._call("upload_part", PartNumber=number, Body=part, **upload))["ETag"])

    async def _content(self, body: Any, about: RemoteObject) -> AsyncGenerator[bytes, None]:
        left = about.size
        while left:
            piece: bytes = await self._in_thread(partial(body.read, min(left, _PIECE)))
            if not piece:
                raise BucketError(self.url, f"{about.key!r} ended {left:,} bytes early")
            left -= len(piece)
            yield piece

    def _object(self, key: str, size: int, etag: str, modified_at: Any) -> RemoteObject:
        seconds = int(modified_at.timestamp())
        return RemoteObject(key=key.removeprefix(self._prefix), size=size, etag=etag, modified_at=seconds)

    async def _call(self, method: str, *, absent_is_none: bool = False, **arguments: Any) -> Any:
        async with self._connecting:
            if self._client is None:
                self._client = await self._in_thread(self._connect)
        call = partial(getattr(self._client, method), Bucket=self._name, **arguments)
        return await self._in_thread(call, absent_is_none=absent_is_none)

    def _connect(self) -> Any:
        import boto3  # type: ignore[import-untyped]  # has no types
        from botocore.config import Config  # type: ignore[import-untyped]  # has no types

        settings: dict[str, Any] = {}
        if self._endpoint is not None:
            # Servers other than AWS often know neither hosts named after buckets nor checksums of parts.
            settings = {"s3": {"addressing_style": "path"}}
            settings |= dict.fromkeys(("request_checksum_calculation", "response_checksum_validation"), "when_required")
        retries = {"mode": "standard", "max_attempts": 3}
        config = Config(connect_timeout=10, read_timeout=60, retries=retries, max_pool_connections=_THREADS, **settings)
        return boto3.session.Session().client("s3", endpoint_url=self._endpoint, config=config)

    async def _in_thread(self, call: Callable[[], Any], *, absent_is_none: bool = False) -> Any:
        guarded = partial(self._guarded, call, absent_is_none=absent_is_none)
        return await asyncio.get_running_loop().run_in_executor(self._threads, guarded)

    def _guarded(self, call: Callable[[], Any], *, absent_is_none: bool) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # has no types

        try:
            return call()
        except ClientError as error:
            found = error.response.get("Error", {})
            code = str(found.get("Code", ""))
            if absent_is_none and code in _ABSENT:
                return None
            raise BucketError(self.url, f"{code} {found.get('Message', '')}".strip()) from error
        except (BotoCoreError, OSError) as error:
            raise BucketError(self.url, f"{type(error).__name__}: {error}") from error


async def _parts(content: AsyncIterator[bytes], size: int) -> AsyncGenerator[bytes, None]:
    """Yield a content in parts of one size, the last one smaller."""
    buffer = bytearray()
    async for piece in content:
        buffer += piece
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)
