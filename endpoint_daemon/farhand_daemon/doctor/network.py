"""What is checked on the way to the control plane."""

import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import grpc

from farhand_daemon.channels import channel_options, mutual_tls
from farhand_daemon.discovery import Discovery
from farhand_daemon.doctor.check import Check, bad, good, split
from farhand_daemon.enrol_client import EnrolmentClient
from farhand_daemon.identity import MachineCredentials
from farhand_daemon.network.connecting import connect
from farhand_daemon.network.names import NameUnknown, literal, look_up
from farhand_daemon.network.proxies import Proxy, proxy_for
from farhand_daemon.network.ways import parts_of, way_to
from farhand_daemon.status import way_back
from farhand_shared import limits, pki
from farhand_shared.errors import FarhandError, InvalidInput

_LINK_READY_S: Final = 10.0


def dns(identity: MachineCredentials) -> Check:
    """Look up every name that the daemon dials."""
    hosts = {urlsplit(identity.server_url).hostname or ""}
    hosts |= {host for host, _ in map(parts_of, (identity.link_address, identity.enrol_address))}
    found = []
    for host in sorted(hosts):
        if literal(host, 0):
            found.append(f"{host} is an address")
            continue
        try:
            addresses = look_up(host, 0)
        except NameUnknown as error:
            return bad("DNS", *split(error))
        found.append(f"{host} is {', '.join(one.host for one in addresses[:4])}")
    return good("DNS", "; ".join(found))


def proxy(identity: MachineCredentials, used: Mapping[str, str], shell: Mapping[str, str]) -> Check:
    """Say whether the link goes through a proxy, and whether this shell has another idea.

    ``used``: the environment of the daemon that runs, else this one.
    """
    host, port = parts_of(identity.link_address)
    try:
        taken, shells = proxy_for(host, port, used), proxy_for(host, port, shell)
    except InvalidInput as error:
        return bad("proxy", *split(error))
    if _same(taken, shells):
        return good("proxy", "none for the link" if taken is None else _shown(taken))
    return bad(
        "proxy",
        f"the daemon uses {_shown(taken)}, this shell {_shown(shells)}",
        "start the daemon from this shell, or run farhandd service install in it: the service "
        "keeps its proxy",
    )


def _same(one: Proxy | None, other: Proxy | None) -> bool:
    def where(proxy: Proxy | None) -> tuple[str, int, str] | None:
        return None if proxy is None else (proxy.host, proxy.port, proxy.credentials)

    return where(one) == where(other)


def _shown(proxy: Proxy | None) -> str:
    return "none" if proxy is None else f"{proxy} by {proxy.variable}"


def route(identity: MachineCredentials, environ: Mapping[str, str]) -> Check:
    """Connect to both listeners as the daemon does, without any TLS."""
    ways = []
    for address in dict.fromkeys((identity.link_address, identity.enrol_address)):
        host, port = parts_of(address)
        begun = time.monotonic()
        try:
            connection, taken = connect(host, port, environ=environ, timeout_s=_LINK_READY_S)
        except FarhandError as error:
            return bad("route", *split(error))
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            return bad(
                "route",
                f"cannot reach {_first_hop(address, environ)}: {reason}",
                "let this machine reach that port, or see why nothing listens there",
            )
        with connection:
            ours = connection.getsockname()[0]
        through = "" if taken is None else f" through the proxy {taken}"
        took_ms = (time.monotonic() - begun) * 1000
        ways.append(f"{address} in {took_ms:.0f} ms from {ours}{through}")
    return good("route", "; ".join(ways))


def _first_hop(address: str, environ: Mapping[str, str]) -> str:
    taken = proxy_for(*parts_of(address), environ)
    return address if taken is None else f"the proxy {taken} of {taken.variable}"


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


def link(identity: MachineCredentials, environ: Mapping[str, str]) -> Check:
    """Make the whole mutual TLS of the link, by gRPC's own way there."""
    address = identity.link_address
    credentials = mutual_tls(
        identity.root_pem.encode(), identity.key_pem.encode(), identity.certificate_pem.encode()
    )
    way = way_to(address, environ)
    with grpc.secure_channel(way.target, credentials, options=channel_options(way)) as channel:
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
