"""The door to the ``docker`` package: connections to one engine, and what its errors mean here.

Everything that blocks runs on one of two small pools of threads: quick questions, of which the engine answers about
eight at a time however many are asked, and work that takes as long as it takes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from agentkit.errors import EngineUnavailableError, SandboxBusyError, SandboxError, SandboxStoppedError

try:
    import requests
    import urllib3
    from docker import APIClient
    from docker.constants import IS_WINDOWS_PLATFORM
    from docker.errors import APIError, DockerException
    from docker.tls import TLSConfig
    from docker.utils import kwargs_from_env, parse_host
except ModuleNotFoundError as error:
    raise EngineUnavailableError(
        [f"docker: {error}"], ["Install what it needs with pip install 'agentkit[docker]'."]
    ) from error

#: More at once only queue in the engine.
QUICK_CALLS = 8
SLOW_CALLS = 32
#: Seconds after which an engine that doesn't answer a quick question counts as gone.
QUICK_TIMEOUT = 60
SLOW_TIMEOUT = 86_400
#: Asked for the version of its API, an engine takes no notice of ours.
_ANY_VERSION = "1.40"

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an engine listens.

    Attributes:
        url: As a user writes it.
        path: Of a Unix socket; None for TCP.
        host: Name or address, for TCP.
        port: Likewise.
        tls: For TCP with TLS.
    """

    url: str
    path: str | None = None
    host: str = ""
    port: int = 0
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine says of itself.

    Attributes:
        processors: How many it may give.
        lacks: Limits and protections that it would silently leave out.
    """

    processors: int
    lacks: tuple[str, ...]


class DockerClient:
    """Blocking connections to one engine; made without asking it anything, usable from any thread.

    Attributes:
        address: Where it listens.
        hosts: Ids of images that are known to have what a sandbox takes.
    """

    def __init__(self, base_url: str | None, tls: TLSConfig | None) -> None:
        settings: dict[str, Any] = {**kwargs_from_env()} if base_url is None else {"base_url": base_url}
        if tls is not None:
            settings["tls"] = tls
        self._settings = settings
        self.hosts: set[str] = set()
        self.address = _address(settings.get("base_url"), settings.get("tls"))

    @cached_property
    def quick(self) -> APIClient:
        """For questions; fails rather than wait for more than a minute."""
        probe = self._connect(_ANY_VERSION, QUICK_TIMEOUT)
        try:
            version = str(probe.version(api_version=False)["ApiVersion"])
        finally:
            probe.close()
        return self._connect(version, QUICK_TIMEOUT)

    @cached_property
    def slow(self) -> APIClient:
        """For what may take long."""
        return self._connect(self.quick.api_version, SLOW_TIMEOUT)

    def _connect(self, version: str, timeout: int) -> APIClient:
        client = APIClient(**self._settings, version=version, timeout=timeout, max_pool_size=SLOW_CALLS)
        # Neither a proxy nor certificates for the web, which the environment may name, are for the engine.
        client.trust_env = False
        return client

    @cached_property
    def facts(self) -> EngineFacts:
        """What the engine says of itself, asked once."""
        info = self.quick.info()
        lacks = [
            name
            for name, key in (("memory limit", "MemoryLimit"), ("process limit", "PidsLimit"), ("CPU", "CpuCfsQuota"))
            if not info.get(key, True)
        ]
        if not any("seccomp" in option for option in info.get("SecurityOptions") or ()):
            lacks.append("system call filter (seccomp)")
        return EngineFacts(processors=int(info["NCPU"]), lacks=tuple(lacks))

    def image(self, reference: str) -> dict[str, Any]:
        """Return what the engine knows of an image.

        Raises:
            ImageNotFound: The library's error.
        """
        found: dict[str, Any] = self.quick.inspect_image(reference)  # type: ignore[no-untyped-call]  # the stubs' gap
        return found

    def new_container(self, config: dict[str, Any], name: str | None = None) -> str:
        """Make a container of the API's own description and return its id."""
        make: Any = self.slow.create_container_from_config
        return str(make(config, name=name)["Id"])

    def close(self) -> None:
        """Drop all connections."""
        for name in ("quick", "slow"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    def _knock(self) -> None:
        """Fail at once if nobody listens: the library leaves a socket open that it couldn't connect."""
        if self.address.path is not None:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(QUICK_TIMEOUT)
                probe.connect(self.address.path)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn errors of the library that nobody has handled into ours."""
        try:
            self._knock()
            yield
        except APIError as error:
            raise meaning_of(error) from error
        except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise unavailable(self.address, error) from error


class DockerThreads:
    """Runs blocking calls on threads of its own, and undoes those whose caller has gone."""

    def __init__(self, client: DockerClient) -> None:
        self._client = client
        self._quick = ThreadPoolExecutor(QUICK_CALLS, thread_name_prefix="agentkit-docker")
        self._slow = ThreadPoolExecutor(SLOW_CALLS, thread_name_prefix="agentkit-docker-slow")

    async def quick(
        self, call: Callable[Concatenate[DockerClient, P], T], *arguments: P.args, **keywords: P.kwargs
    ) -> T:
        """Run a question to the engine."""
        work = partial(self._run, call, *arguments, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._quick, work)

    async def slow(
        self, call: Callable[Concatenate[DockerClient, P], T], *arguments: P.args, **keywords: P.kwargs
    ) -> T:
        """Run what may take long."""
        work = partial(self._run, call, *arguments, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._slow, work)

    async def slow_or_undone(self, call: Callable[[DockerClient], T], undo: Callable[[DockerClient, T], object]) -> T:
        """Run what may take long; if the caller is cancelled meanwhile, what it made is undone once it is made."""
        future = self._slow.submit(self._run, call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # A call that is still queued is cancelled with its caller; one under way can't be.
            if not future.cancelled():
                self._slow.submit(lambda: self._run(undo, future.result()))
            raise

    def _run(self, call: Callable[Concatenate[DockerClient, P], T], *arguments: P.args, **keywords: P.kwargs) -> T:
        with self._client.translated():
            return call(self._client, *arguments, **keywords)

    def close(self) -> None:
        """Wait for what is under way, and end the threads."""
        self._quick.shutdown()
        self._slow.shutdown()


def _address(base_url: str | None, tls: TLSConfig | None) -> Address:
    """Return where connections of our own go, which the library can't make.

    Raises:
        EngineUnavailableError: We can't speak to such an address.
    """
    url = str(parse_host(base_url, IS_WINDOWS_PLATFORM, tls=tls is not None))
    parts = urlsplit(url)
    shown = base_url or url.removeprefix("http+")
    if parts.scheme == "http+unix":
        return Address(url=shown, path=url.removeprefix("http+unix://"))
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise EngineUnavailableError(
            [f"docker at {shown}: agentkit can't speak {parts.scheme}"],
            ["Set DOCKER_HOST to a unix:// or tcp:// address (ssh -L can forward one)."],
        )
    context = _context(tls) if parts.scheme == "https" else None
    return Address(url=shown, host=parts.hostname, port=parts.port or 2375, tls=context)


def _context(tls: TLSConfig | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_cert if tls else None)
    if tls is not None and tls.cert:
        context.load_cert_chain(*tls.cert)
    if tls is not None and not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def meaning_of(error: APIError) -> SandboxError:
    """Return what an answer means that no caller was ready for."""
    return meaning_of_answer(error.status_code or 0, str(error.explanation or error))


def meaning_of_answer(status: int, text: str) -> SandboxError:
    """Return what a status and its explanation mean."""
    if status == 409 and "is paused" in text:
        return SandboxBusyError("a snapshot of the sandbox is being made; try again in a moment")
    if "is not running" in text or "No such container" in text:
        return SandboxStoppedError("gone" if status == 404 else "stopped")
    return SandboxError(f"docker says ({status}): {text.strip()}")


def unavailable(address: Address, error: BaseException) -> EngineUnavailableError:
    """Return the error for an engine that can't be reached (T20)."""
    cause = _innermost(error)
    match cause:
        case PermissionError():
            mend = "Add yourself to the group docker and log in again, or run as a user who may use the socket."
        case FileNotFoundError():
            mend = "Install and start Docker, or set DOCKER_HOST to where it listens."
        case _:
            mend = "Start the Docker daemon, or set DOCKER_HOST to where it listens."
    reason = (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
    return EngineUnavailableError([f"docker at {address.url}: {reason}"], [mend])


def _innermost(error: BaseException) -> BaseException:
    """Return the system's own error, which the libraries wrap several times over, or else the first."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno is not None:
            return seen
        seen = seen.__cause__ or seen.__context__
    return error


def names(filters: Mapping[str, str]) -> dict[str, list[str]]:
    """Return a filter by labels, in the engine's form."""
    return {"label": [f"{key}={value}" for key, value in filters.items()]}
