"""The ports of the local instance: chosen once, kept, given up only when nobody relies on them."""

import errno
import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from farhand_shared.errors import InvalidInput, Unavailable

_VARIABLES: Final = {
    "http": "FARHAND_HTTP_PORT",
    "enrol": "FARHAND_ENROL_PORT",
    "link": "FARHAND_LINK_PORT",
}
_EVERY_INTERFACE: Final = ("0.0.0.0", "::")  # noqa: S104  # recognised
_WHAT: Final = {"http": "the API", "enrol": "enrolment", "link": "the machines' links"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """0 or None: not chosen yet."""

    http: int = 0
    enrol: int = 0
    link: int = 0


def load_ports(path: Path) -> Ports:
    """Return the stored ports; zeros when there are none."""
    try:
        stored = json.loads(path.read_bytes())
        return Ports(**{name: int(stored[name]) for name in _VARIABLES})
    except (OSError, ValueError, KeyError, TypeError):
        return Ports()


def store_ports(path: Path, ports: Ports) -> None:
    """Keep the ports for the next start."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(asdict(ports)) + "\n")
    fresh.replace(path)


def reachable_host(bind: str, public_host: str) -> str:
    """Return where other computers reach us: as the operator says, else as this one seems to be."""
    if public_host:
        return public_host
    if bind not in _EVERY_INTERFACE:
        return bind
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    somewhere = "2001:db8::1" if ":" in bind else "192.0.2.1"  # reserved for documents
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((somewhere, 9))  # sends nothing: it asks which way it would go
            return str(probe.getsockname()[0])
    except OSError:  # no network: this computer's name is all there is
        return socket.gethostname()


def bracketed(host: str) -> str:
    """Return a host as it stands before a port."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def choose(bind: str, wanted: Ports, stored: Ports, *, may_move: bool) -> Ports:
    """Return ports that can be bound now: the wanted, else the stored, else free ones.

    A wanted port that is taken is an error. So is a stored one, unless ``may_move``: machines on
    other computers would look for it in vain.
    """
    chosen: dict[str, int] = {}
    for name in _VARIABLES:
        port = int(getattr(wanted, name))
        if port:
            _check(bind, port, name)
        else:
            port = int(getattr(stored, name))
            if port and not may_move:
                _check(bind, port, name)
            elif not port or not _is_free(bind, port):
                port = _free_port(bind, avoid=set(chosen.values()))
        if port in chosen.values():
            raise InvalidInput(f"cannot use port {port} twice; change {_VARIABLES[name]}")
        chosen[name] = port
    return Ports(**chosen)


def listening_socket(bind: str, port: int) -> socket.socket:
    """Return a bound socket that listens; raise Unavailable naming port and setting."""
    _check(bind, port, "http")
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    # The protocol is named: asyncio sets TCP_NODELAY only then, and without it every answer of two
    # writes waits 40 ms for the client's delayed acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((bind, port))
        listening.listen(2048)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise _cannot(bind, port, "http", error) from error
    return listening


def _check(bind: str, port: int, name: str) -> None:
    """Raise unless the port can be bound; another's SO_REUSEPORT does not make it ours."""
    try:
        _try(bind, port)
    except OSError as error:
        raise _cannot(bind, port, name, error) from error


def _is_free(bind: str, port: int) -> bool:
    try:
        _try(bind, port)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return False
        raise _cannot(bind, port, "http", error) from error
    return True


def _try(bind: str, port: int) -> int:
    with socket.socket(socket.AF_INET6 if ":" in bind else socket.AF_INET) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind((bind, port))
        tried.listen(1)  # where somebody else listens with reuse, binding alone may succeed
        return int(tried.getsockname()[1])


def _free_port(bind: str, avoid: set[int]) -> int:
    while True:
        try:
            port = _try(bind, 0)
        except OSError as error:
            raise _cannot(bind, 0, "http", error) from error
        if port not in avoid:
            return port


def _cannot(bind: str, port: int, name: str, error: OSError) -> Exception:
    if error.errno == errno.EADDRINUSE:
        return Unavailable(
            f"cannot listen on {bind} port {port} for {_WHAT[name]}: it is taken; "
            f"end what uses it or set {_VARIABLES[name]} to another"
        )
    if error.errno == errno.EACCES:
        return Unavailable(
            f"cannot listen on {bind} port {port} for {_WHAT[name]}: not allowed for this user; "
            f"set {_VARIABLES[name]} to one above 1023"
        )
    return Unavailable(
        f"cannot listen on {bind}: {error.strerror or error}; set FARHAND_BIND to an address of "
        "this computer"
    )
