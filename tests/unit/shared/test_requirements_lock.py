"""The locked dependencies: read by pip, and by whoever carries the wheels."""

import pytest

from farhand_shared.errors import InvalidInput
from farhand_shared.requirements_lock import LockedWheel, normal_name, parse_lock, render_lock

GRPC = LockedWheel(
    name="grpcio-1.85.3-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    sha256="a" * 64,
)
GRPC_12 = LockedWheel(name="grpcio-1.85.3-cp312-cp312-musllinux_1_2_x86_64.whl", sha256="b" * 64)
TYPES = LockedWheel(name="typing_extensions-4.16.0-py3-none-any.whl", sha256="c" * 64)


def test_a_lock_holds_its_wheels_and_is_a_requirements_file_with_hashes() -> None:
    text = render_lock([TYPES, GRPC_12, GRPC])
    assert parse_lock(text) == (GRPC, GRPC_12, TYPES)
    requirements = [line for line in text.splitlines() if not line.startswith("#")]
    assert requirements == [
        "grpcio==1.85.3 \\",
        f"    --hash=sha256:{'a' * 64} \\",
        f"    --hash=sha256:{'b' * 64}",
        "typing-extensions==4.16.0 \\",
        f"    --hash=sha256:{'c' * 64}",
    ]


def test_two_versions_of_a_project_cannot_be_locked() -> None:
    other = LockedWheel(name="grpcio-1.86.0-cp312-cp312-musllinux_1_2_x86_64.whl", sha256="d" * 64)
    with pytest.raises(InvalidInput, match="grpcio"):
        render_lock([GRPC, other])


def test_names_of_projects_are_those_of_indexes() -> None:
    assert normal_name("Typing_Extensions") == normal_name("typing.extensions") == TYPES.project
    assert parse_lock("# wheel sha256:x y\ngrpcio==1\n") == ()
