"""Where volumes, buckets and host directories may be."""

from __future__ import annotations

import pytest

from agentkit.errors import ConfigurationError
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


def test_neighbours_and_nested_volumes_are_fine() -> None:
    """Only what would be mixed up is refused."""
    volumes = [Volume("outer", "/cache"), Volume("inner", "/cache/deep"), Volume("next", "/data2")]

    spec = SandboxSpec(mounts=[BucketMount("s3://bucket", "/data")], volumes=volumes)

    assert len(spec.volumes) == 3
