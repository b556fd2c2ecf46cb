"""What a repository may be called."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentkit.errors import ConfigurationError
from agentkit.sandbox.git.host import usable_origin
from agentkit.sandbox.git.url import check_ref, host_path, read_url


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/owner/repo.git",
        "http://internal.example:8080/a/b",
        "https://[2001:db8::1]:8443/repo",
        "ssh://git@github.com:22/owner/repo",
        "ssh://github.com/~owner/repo",
        "git://example.com/repo",
        "file:///workspace/repo",
        "git@github.com:owner/repo.git",
        "host:repo",
        "HTTPS://GitHub.com/a",
    ],
)
def test_usual_urls_are_taken_as_they_are(url: str) -> None:
    """Each form that git has, without a secret, goes to git unchanged."""
    read = read_url(url)

    assert read.url.lower() == url.lower()
    assert read.credential is None
    assert host_path(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "-u./evil",
        "--upload-pack=touch /tmp/x",
        "ext::sh -c touch% /tmp/x",
        "ext::sh",
        "fd::17",
        "::https://example.com",
        "ssh://-oProxyCommand=touch/x",
        "ssh://-oProxyCommand=touch@host/x",
        "ssh://user@-oProxyCommand=touch/x",
        "-oProxyCommand=touch:repo",
        "user@-oProxyCommand=touch:repo",
        "host:-repo",
        "ssh://host/-repo",
        "ftp://example.com/repo",
        "javascript://example.com/repo",
        "https://",
        "https:///repo",
        "https://user@/repo",
        "https://a b/repo",
        "https://example.com/re\npo",
        "https://example.com\x00/repo",
        "https://a=b/repo",
        "https://exa$(id)mple.com/repo",
        "https://example.com:port/repo",
        "https://example.com\\@evil.example/",
        "",
    ],
)
def test_what_git_could_take_for_something_else_is_refused(url: str) -> None:
    """Options, helper programs, control characters and other schemes never reach git (report 26)."""
    with pytest.raises(ConfigurationError):
        read_url(url)


@pytest.mark.parametrize(
    ("url", "token", "username", "password"),
    [
        ("https://example.com/r", "t0ken", "x-access-token", "t0ken"),
        ("https://ada@example.com/r", "t0ken", "ada", "t0ken"),
        ("https://ada:s%40cret@example.com/r", None, "ada", "s@cret"),
        ("https://ada:old@example.com/r", "t0ken", "ada", "t0ken"),
        ("https://t0ken@example.com/r", None, "t0ken", ""),
        ("https://:t0ken@example.com/r", None, "x-access-token", "t0ken"),
        ("http://localhost:1/r", "t0ken", "x-access-token", "t0ken"),
    ],
)
def test_secret_is_taken_out_of_the_url(url: str, token: str | None, username: str, password: str) -> None:
    """The remote has no userinfo; who to be is kept apart, for that server, and doesn't show when printed."""
    read = read_url(url, token)

    assert read.credential is not None
    assert (read.credential.username, read.credential.password) == (username, password)
    assert read.credential.scope == url[: url.index("/r")].replace(url[url.index("//") + 2 : url.rfind("@") + 1], "")
    assert "@" not in read.url
    assert password == "" or password not in repr(read)


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("http://example.com/r", "t0ken"),
        ("http://ada:t0ken@example.com/r", None),
        ("git@example.com:r", "t0ken"),
        ("ssh://git@example.com/r", "t0ken"),
        ("ssh://git:t0ken@example.com/r", None),
        ("https://example.com/r", "t0ken\nhost=evil.example"),
        ("https://ada:t0ken%0ahost=evil.example@example.com/r", None),
    ],
)
def test_secret_that_would_go_astray_is_refused(url: str, token: str | None) -> None:
    """No token over plain http or for ssh, none with lines that git would take for more; and no error shows it."""
    with pytest.raises(ConfigurationError) as raised:
        read_url(url, token)

    assert "t0ken" not in str(raised.value)


@pytest.mark.parametrize("ref", ["main", "feature/x-1", "v1.2.3", "größe", "a" * 40])
def test_usual_refs(ref: str) -> None:
    """Branches, tags and hashes are taken."""
    assert check_ref(ref) == ref


@pytest.mark.parametrize(
    "ref", ["", "-b", "--upload-pack=x", "a b", "a\nb", "a..b", "HEAD~1", "a:b", "a^{}", "*", "a\\b"]
)
def test_unusual_refs_are_refused(ref: str) -> None:
    """A branch's name is never an option, nor an expression (report 26)."""
    with pytest.raises(ConfigurationError):
        check_ref(ref)


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("/srv/repo", Path("/srv/repo")),
        ("./repo", Path("repo")),
        ("repo", Path("repo")),
        ("/srv/a:b", Path("/srv/a:b")),
        (Path("host:repo"), Path("host:repo")),
        ("~/repo", Path.home() / "repo"),
    ],
)
def test_paths_of_this_machine(source: str | Path, path: Path) -> None:
    """What has no scheme and no host is a path, as git sees it."""
    assert host_path(source) == path


@pytest.mark.parametrize("source", ["-repo", "ext::x", "https://example.com", "git@example.com:r", "file:///repo"])
def test_no_paths_of_this_machine(source: str) -> None:
    """What git could take for something else is not looked for here."""
    assert host_path(source) is None


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://ada:t0ken@example.com/r\n", "https://example.com/r"),
        ("git@example.com:r", "git@example.com:r"),
        ("http://ada:t0ken@example.com/r", None),
        ("/srv/repo", None),
        ("../repo", None),
        ("file:///srv/repo", None),
        ("ext::sh", None),
        ("", None),
    ],
)
def test_origin_of_a_copy(url: str, origin: str | None) -> None:
    """A copy keeps an origin that works elsewhere, without its secret."""
    assert usable_origin(url) == origin
