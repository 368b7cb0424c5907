"""Addresses of a name: asked anew for every dial, so that nothing outlives a change of network."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from itertools import chain, zip_longest
from typing import Final, NamedTuple

from farhand_daemon.network.proxies import packed
from farhand_shared.errors import Unavailable

LOOKUP_S: Final = 10.0  # a resolver without a network may hang for half a minute


class Address(NamedTuple):
    """Where one connection goes."""

    family: int
    host: str  # an address, never a name
    port: int


class NameUnknown(Unavailable):
    """A name has no address now; ``reason`` is the resolver's, fit for people."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(
            f"cannot look up {host}: {reason}; check the name server of this network, and the name"
        )
        self.reason = reason


def look_up(host: str, port: int, *, timeout_s: float = LOOKUP_S) -> tuple[Address, ...]:
    """Return the addresses of a host, both families in turn, the system's choice first."""
    if known := literal(host, port):
        return known
    over = threading.Event()
    found: list[tuple[Address, ...] | NameUnknown] = []

    def tell(answer: tuple[Address, ...] | NameUnknown) -> None:
        found.append(answer)
        over.set()

    _ask(host, port, tell)
    over.wait(timeout_s)
    return _given(host, found, timeout_s)


async def look_up_meanwhile(host: str, port: int) -> tuple[Address, ...]:
    """Return the same without holding up the loop, nor the end of the process."""
    if known := literal(host, port):
        return known
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    found: list[tuple[Address, ...] | NameUnknown] = []

    def tell(answer: tuple[Address, ...] | NameUnknown) -> None:
        found.append(answer)
        try:
            loop.call_soon_threadsafe(over.set)
        except RuntimeError:
            return  # the loop has ended while the resolver hung

    _ask(host, port, tell)
    try:
        async with asyncio.timeout(LOOKUP_S):
            await over.wait()
    except TimeoutError:
        pass
    return _given(host, found, LOOKUP_S)


def literal(host: str, port: int) -> tuple[Address, ...]:
    """Return the address that a host is; none when it is a name."""
    written = packed(host)
    if not written:
        return ()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return (Address(family, host, port),)


def _ask(host: str, port: int, tell: Callable[[tuple[Address, ...] | NameUnknown], None]) -> None:
    """Ask in a thread of its own: an executor's would be waited for at the end."""

    def ask() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            tell(NameUnknown(host, getattr(error, "strerror", None) or str(error)))
        else:
            each = dict.fromkeys((int(entry[0]), str(entry[4][0])) for entry in entries)
            tell(in_turn(Address(family, one, port) for family, one in each))

    threading.Thread(target=ask, name=f"look-up-{host}", daemon=True).start()


def in_turn(addresses: Iterable[Address]) -> tuple[Address, ...]:
    """Return them with the families in turn (RFC 8305), so that a dead one costs one try."""
    each: dict[int, list[Address]] = {}  # the first family stays the first
    for address in addresses:
        each.setdefault(address.family, []).append(address)
    return tuple(one for one in chain.from_iterable(zip_longest(*each.values())) if one)


def _given(
    host: str, found: list[tuple[Address, ...] | NameUnknown], timeout_s: float
) -> tuple[Address, ...]:
    answer = found[0] if found else NameUnknown(host, f"no answer within {timeout_s:.0f} s")
    if isinstance(answer, NameUnknown):
        raise answer
    if not answer:
        raise NameUnknown(host, "it has no address")
    return answer
