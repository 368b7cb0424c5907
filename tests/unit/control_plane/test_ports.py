"""Ports of the local instance."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from farhand_control_plane.ports import Ports, choose, listening_socket, load_ports, store_ports
from farhand_shared.errors import InvalidInput, Unavailable

BIND = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on, with address reuse as servers have it."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind((BIND, 0))
        other.listen()
        yield other.getsockname()[1]


def test_first_ports_are_free_ones_and_differ() -> None:
    ports = choose(BIND, Ports(), Ports(), may_move=True)
    assert len({ports.http, ports.enrol, ports.link}) == 3
    assert 0 not in (ports.http, ports.enrol, ports.link)


def test_stored_ports_are_kept(tmp_path: Path) -> None:
    first = choose(BIND, Ports(), Ports(), may_move=True)
    store_ports(tmp_path / "ports.json", first)
    again = choose(BIND, Ports(), load_ports(tmp_path / "ports.json"), may_move=False)
    assert again == first


@pytest.mark.parametrize("content", ["", "[]", '{"http": 1}', '{"http": null}'])
def test_a_damaged_file_of_ports_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)
    assert load_ports(tmp_path / "ports.json") == Ports()


def test_a_taken_stored_port_moves_while_nobody_relies_on_it(taken: int) -> None:
    ports = choose(BIND, Ports(), Ports(link=taken), may_move=True)
    assert ports.link != taken


def test_a_taken_stored_port_is_an_error_once_machines_dial_it(taken: int) -> None:
    with pytest.raises(
        Unavailable, match=f"port {taken} for the machines' links: it is taken"
    ) as e:
        choose(BIND, Ports(), Ports(link=taken), may_move=False)
    assert "FARHAND_LINK_PORT" in str(e.value)


def test_a_wanted_port_that_is_taken_is_an_error_and_names_its_setting(taken: int) -> None:
    with pytest.raises(Unavailable, match="FARHAND_HTTP_PORT"):
        choose(BIND, Ports(http=taken), Ports(), may_move=True)


def test_one_port_for_two_listeners_is_refused() -> None:
    free = choose(BIND, Ports(), Ports(), may_move=True).http
    with pytest.raises(InvalidInput, match="twice"):
        choose(BIND, Ports(http=free, enrol=free), Ports(), may_move=True)


def test_an_address_of_another_computer_names_the_setting() -> None:
    with pytest.raises(Unavailable, match="FARHAND_BIND"):
        choose("192.0.2.1", Ports(), Ports(), may_move=True)


def test_a_taken_port_is_said_when_listening(taken: int) -> None:
    with pytest.raises(Unavailable, match=f"cannot listen on {BIND} port {taken}"):
        listening_socket(BIND, taken)
