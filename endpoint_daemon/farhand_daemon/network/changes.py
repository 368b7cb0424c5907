"""Notices that this computer has come to another network, without looking again and again.

The kernel tells of every change of an address or a route; most of them (a container's interface,
a router that renews its advertisement) are none for us. What counts is the address of our own
from which a connection to the control plane would begin: when that changes, the old one is dead.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Final, Self

from farhand_daemon.network.names import Address

# Groups of RTNETLINK, from linux/rtnetlink.h: link, IPv4 address and route, IPv6 address and route.
_GROUPS: Final = 0x1 | 0x10 | 0x40 | 0x100 | 0x400
_READ_BYTES: Final = 1 << 16
# Of nobody (RFC 5737 and 3849): where the default routes lead. Nothing is ever sent there.
_ANYWHERE: Final = (
    Address(socket.AF_INET, "192.0.2.1", 9),
    Address(socket.AF_INET6, "2001:db8::1", 9),
)

Sources = tuple[str, ...]


def sources(towards: Iterable[Address] = ()) -> Sources:
    """Return our own address towards each of these and towards anywhere; "" where none leads.

    Nothing is sent: a datagram socket is only told where it would send to.
    """
    return tuple(_source(address) for address in (*towards, *_ANYWHERE))


def _source(address: Address) -> str:
    try:
        with socket.socket(address.family, socket.SOCK_DGRAM) as asked:
            asked.connect((address.host, address.port))
            return str(asked.getsockname()[0])
    except OSError:
        return ""


class NetworkWatch:
    """Calls ``on_news`` on the loop whenever the kernel tells something; close it at the end."""

    def __init__(self, on_news: Callable[[], None]) -> None:
        self._on_news = on_news
        self._told: socket.socket | None = None

    def __enter__(self) -> Self:
        self._told = _listen()
        if self._told is not None:
            asyncio.get_running_loop().add_reader(self._told, self._read, self._told)
        return self

    def __exit__(self, *_: object) -> None:
        if self._told is not None:
            asyncio.get_running_loop().remove_reader(self._told)
            self._told.close()
            self._told = None

    def _read(self, told: socket.socket) -> None:
        try:
            while told.recv(_READ_BYTES):
                pass  # what it is does not matter
        except OSError:
            pass  # EAGAIN: that was all; ENOBUFS: more than fits, which is news too
        self._on_news()


def _listen() -> socket.socket | None:
    """Return a socket that becomes readable at changes; None where the system has none for us."""
    try:
        if sys.platform == "linux":
            told = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
            )
            told.bind((0, _GROUPS))
        elif sys.platform == "darwin":  # not verified: a routing socket tells every change
            told = socket.socket(socket.AF_ROUTE, socket.SOCK_RAW, 0)
        else:
            return None
    except OSError:
        return None  # a sandbox may forbid it; the ping's silence notices then
    told.setblocking(False)
    return told
