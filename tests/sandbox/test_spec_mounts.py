"""Where volumes, buckets and host directories may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentkit.errors import ConfigurationError, SandboxError
from agentkit.sandbox.host_directories import check_host_directories
from agentkit.sandbox.spec import BucketMount, SandboxSpec, Volume


@pytest.mark.parametrize(
    ("url", "directory"),
    [("/srv/data", "/srv/data"), ("file:///srv/a%20b", "/srv/a b"), ("/srv/a%20b", "/srv/a%20b"), ("s3://b/p", None)],
)
def test_host_directory(url: str, directory: str | None) -> None:
    """A path is taken as it is, a file URL is decoded, a bucket is none."""
    assert BucketMount(url, "/data").host_directory == directory


@pytest.mark.parametrize(
    ("bucket", "other"),
    [("/data", "/data/cache"), ("/data/", "/data/cache"), ("/cache/b", "/cache"), ("/data", "/data")],
)
def test_bucket_has_a_path_of_its_own(bucket: str, other: str) -> None:
    """What lies below a bucket's path would be copied to it, so no volume or mount may; nor the other way round."""
    mount = BucketMount("s3://bucket", bucket)

    with pytest.raises(ConfigurationError):
        SandboxSpec(mounts=[mount], volumes=[Volume("cache", other)])
    with pytest.raises(ConfigurationError):
        SandboxSpec(mounts=[mount, BucketMount("/srv", other)])


@pytest.mark.parametrize("inner", ["/srv/data/deep", "file:///srv/data/deep", "/srv/data//x/", "/srv/data/./x"])
def test_nothing_is_mounted_from_below_what_the_sandbox_writes_to(inner: str) -> None:
    """Code inside could put a link to anywhere on the host in its place, for the next start to follow (report 23)."""
    mounts = [BucketMount("/srv/data", "/data"), BucketMount(inner, "/inner", read_only=True)]

    with pytest.raises(ConfigurationError, match="may write to"):
        SandboxSpec(mounts=mounts)
    with pytest.raises(ConfigurationError, match="may write to"):
        SandboxSpec(mounts=mounts[::-1])

    SandboxSpec(mounts=[BucketMount("/srv/data", "/data", read_only=True), BucketMount(inner, "/inner")])


@pytest.mark.parametrize("url", ["/srv/../etc", "file:///srv/%2e%2e/etc", "/srv/a\nb", "/srv/a\0b"])
def test_host_directory_is_a_plain_path(url: str) -> None:
    """What is written in the spec is what is mounted."""
    with pytest.raises(ConfigurationError, match="plain path"):
        BucketMount(url, "/data")


def test_host_directory_behind_a_link_is_refused(tmp_path: Path) -> None:
    """Somebody may have put the link there since the spec was written; the error names where it leads (report 23)."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "plain").mkdir()
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "deep").symlink_to(".")
    check_host_directories([BucketMount(str(tmp_path / "plain"), "/data"), BucketMount("/not/here", "/x")])

    for name in ("link", "deep/plain"):
        with pytest.raises(SandboxError, match=str(tmp_path)):
            check_host_directories([BucketMount(str(tmp_path / name), "/data")])


def test_neighbours_and_nested_volumes_are_fine() -> None:
    """Only what would be mixed up is refused."""
    volumes = [Volume("outer", "/cache"), Volume("inner", "/cache/deep"), Volume("next", "/data2")]

    spec = SandboxSpec(mounts=[BucketMount("s3://bucket", "/data")], volumes=volumes)

    assert len(spec.volumes) == 3
