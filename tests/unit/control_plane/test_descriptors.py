"""How many descriptors a replica takes, and how many connections it serves with them."""

import resource

import pytest

from farhand_control_plane import serve


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (1024, 4096, 4096),
        (4096, 4096, None),
        (256, resource.RLIM_INFINITY, serve.DESCRIPTORS_WANTED),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
    ],
)
def test_the_soft_limit_is_raised_to_the_hard_one(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, wanted: int | None
) -> None:
    taken: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: taken.append(limits))
    serve.raise_descriptor_limit()
    assert taken == ([] if wanted is None else [(wanted, hard)])


def test_a_kernel_that_refuses_keeps_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    serve.raise_descriptor_limit()


@pytest.mark.parametrize(
    ("soft", "connections"),
    [(300, 150), (1024, 512), (1 << 20, 8192), (resource.RLIM_INFINITY, 8192)],
)
def test_connections_are_capped_below_the_limit(
    monkeypatch: pytest.MonkeyPatch, soft: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert serve.connections_max() == connections
