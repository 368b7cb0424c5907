"""What is checked on the way to the control plane."""

import base64
import ipaddress
import re
import socket
import threading
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import grpc

from farhand_daemon.channels import channel_options, mutual_tls
from farhand_daemon.discovery import Discovery
from farhand_daemon.doctor.check import Check, bad, good
from farhand_daemon.enrol_client import EnrolmentClient
from farhand_daemon.identity import MachineCredentials
from farhand_daemon.status import way_back
from farhand_shared import limits, pki

_LINK_READY_S: Final = 10.0
_LOOKUP_S: Final = 10.0
_ANSWER_MAX_BYTES: Final = 4096
# In the order in which gRPC asks for them; it knows no capital ones.
_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
_EXCEPTIONS: Final = ("no_grpc_proxy", "no_proxy")


class Proxies:
    """Which proxy gRPC takes for an address, by the variables of one process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.variable = next((name for name in _PROXIES if environ.get(name)), "")
        self.url = environ.get(self.variable, "")
        listed = next((environ[name] for name in _EXCEPTIONS if environ.get(name)), "")
        self._exceptions = [one.strip() for one in listed.split(",") if one.strip()]

    def proxy_for(self, host: str) -> str:
        """Return the proxy's URL, or "" where the way is direct."""
        if not self.url or _is_loopback(host):
            return ""
        if any(host == one or host.endswith(one) for one in self._exceptions):
            return ""
        return self.url


def dns(identity: MachineCredentials) -> Check:
    """Look up every name that the daemon dials."""
    hosts = {urlsplit(identity.server_url).hostname or ""}
    hosts |= {host for host, _ in map(_parts, (identity.link_address, identity.enrol_address))}
    found = []
    for host in sorted(hosts):
        if _is_address(host):
            found.append(f"{host} is an address")
            continue
        addresses, reason = _look_up(host)
        if not addresses:
            return bad(
                "DNS",
                f"cannot look up {host}: {reason}",
                "check the name server of this network, and the name",
            )
        found.append(f"{host} is {', '.join(addresses[:4])}")
    return good("DNS", "; ".join(found))


def proxy(identity: MachineCredentials, used: Proxies, shell: Mapping[str, str]) -> Check:
    """Say whether the link goes through a proxy, and whether this shell has another idea."""
    host, _ = _parts(identity.link_address)
    taken, shells = used.proxy_for(host), Proxies(shell).proxy_for(host)
    capital = next((name for name in map(str.upper, _PROXIES) if shell.get(name)), "")
    if taken != shells:
        return bad(
            "proxy",
            f"the daemon uses {_shown(taken) or 'none'}, this shell {_shown(shells) or 'none'}",
            "start the daemon from this shell, or run farhandd service install in it: the service "
            "keeps its proxy",
        )
    if taken:
        return good("proxy", f"{_shown(taken)} by {used.variable}")
    if capital and not used.url and not _is_loopback(host):
        return bad(
            "proxy",
            f"{capital} is set, but the link knows only lower-case variables",
            f"set {capital.lower()} too, or no_proxy if none is needed",
        )
    return good("proxy", "none for the link")


def route(identity: MachineCredentials, proxies: Proxies) -> Check:
    """Connect to both listeners as the daemon does, without any TLS."""
    ways = []
    for address in dict.fromkeys((identity.link_address, identity.enrol_address)):
        host, port = _parts(address)
        taken = proxies.proxy_for(host)
        begun = time.monotonic()
        try:
            ours = _through(taken, host, port) if taken else _straight(host, port)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            by = f" through {_shown(taken)}" if taken else ""
            return bad(
                "route",
                f"cannot reach {address}{by}: {reason}",
                "let this machine reach that port, or see why nothing listens there",
            )
        ways.append(f"{address} in {(time.monotonic() - begun) * 1000:.0f} ms from {ours}")
    return good("route", "; ".join(ways))


def _straight(host: str, port: int) -> str:
    with socket.create_connection((host, port), timeout=_LINK_READY_S) as connection:
        return str(connection.getsockname()[0])


def _through(url: str, host: str, port: int) -> str:
    """Ask the proxy for a tunnel; raise ValueError with its words when it gives none."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if not parts.hostname:
        raise ValueError("the proxy's address is none")
    shown = f"[{host}]" if ":" in host else host
    lines = [f"CONNECT {shown}:{port} HTTP/1.1", f"Host: {shown}:{port}"]
    if parts.username is not None:
        secret = base64.b64encode(f"{parts.username}:{parts.password or ''}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {secret}")
    with socket.create_connection(
        (parts.hostname, parts.port or 80), timeout=_LINK_READY_S
    ) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = connection.recv(_ANSWER_MAX_BYTES).decode("latin-1").partition("\r\n")[0]
        if not re.match(r"HTTP/1\.[01] 2\d\d", answer):
            said = "".join(c for c in answer[:80] if c.isprintable())
            raise ValueError(f"the proxy says {said!r}")
        return f"{connection.getsockname()[0]} through the proxy"


def _look_up(host: str) -> tuple[list[str], str]:
    """Return its addresses, or none and the reason. A resolver may hang for longer than we wait."""
    answer: tuple[list[str], str] = ([], f"no answer within {_LOOKUP_S:.0f} s")

    def ask() -> None:
        nonlocal answer
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            answer = ([], getattr(error, "strerror", None) or str(error))
        else:
            answer = (list(dict.fromkeys(str(entry[4][0]) for entry in found)), "")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_LOOKUP_S)
    return answer


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _shown(url: str) -> str:
    """Return a proxy's address without its password."""
    return re.sub(r"//[^/@]*@", "//…@", url) if "//" in url else url.rpartition("@")[2]


def clock(found: Discovery) -> Check:
    if found.server_time is None:
        return good("clock", "the server did not say its time")
    skew_s = time.time() - found.server_time.timestamp()
    text = f"{skew_s:+.0f} s against the server"
    if abs(skew_s) <= limits.CLOCK_SKEW_S:
        return good("clock", text)
    return bad("clock", text, "set this machine's clock; the link needs it within 5 minutes")


def tls_pin(identity: MachineCredentials, found: Discovery) -> Check:
    pinned = pki.spki_sha256(pki.spki_of_certificate(identity.root_pem.encode()))
    shown = pki.spki_sha256(pki.spki_of_certificate(found.root_pem))
    if pinned == shown:
        return good("TLS pin", f"the server's root is the pinned one ({pinned[:4].hex()})")
    return bad(
        "TLS pin",
        f"the server's root is {shown[:4].hex()}, pinned is {pinned[:4].hex()}",
        "check the address; for another server run farhandd enroll URL --force",
    )


def link(identity: MachineCredentials) -> Check:
    """Make the whole mutual TLS of the link, by gRPC's own way there."""
    address = identity.link_address
    credentials = mutual_tls(
        identity.root_pem.encode(), identity.key_pem.encode(), identity.certificate_pem.encode()
    )
    with grpc.secure_channel(address, credentials, options=channel_options(address)) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_LINK_READY_S)
        except grpc.FutureTimeoutError:
            return bad(
                "link",
                f"no mutual TLS with {address} within {_LINK_READY_S:.0f} s",
                "see the checks above; something in between may open TLS",
            )
    return good("link", f"mutual TLS with {address} under the pinned root")


def enrolment(identity: MachineCredentials) -> tuple[str, str]:
    """Return what the server calls this machine: its status and its name."""
    with EnrolmentClient(identity.enrol_address, identity.root_pem.encode()) as client:
        return client.status(
            machine_id=identity.machine_id,
            key_pem=identity.key_pem.encode(),
            certificate_der=pki.certificate_der(identity.certificate_pem.encode()),
        )


def judged(status: str, name: str) -> Check:
    if status == "active":
        return good("enrolment", f"active as {name}")
    step = {
        "pending": "let the code's maker compare the six words and confirm",
        "revoked": way_back(status),
        "quarantined": way_back(status),
    }.get(status, "ask whoever runs the control plane")
    return bad("enrolment", f"the server calls this machine {status}", step)
