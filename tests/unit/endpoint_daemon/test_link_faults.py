"""What people read of a link that failed: what cannot be reached, why, what to do."""

import grpc
import pytest

from farhand_daemon.link_faults import fault_words, raw_words
from farhand_daemon.network.proxies import Proxy

_ALL = "failed to connect to all addresses; last error: "


@pytest.mark.parametrize(
    ("details", "why"),
    [
        (
            f"{_ALL}UNKNOWN: ipv4:127.0.0.1:45977: Failed to connect to remote host: "
            "connect: Connection refused (111)",
            "nothing listens there",
        ),
        (
            "DNS resolution failed for nowhere.invalid:443: C-ares status is not ARES_SUCCESS",
            "its name cannot be resolved",
        ),
        (f"{_ALL}UNKNOWN: ipv4:192.0.2.1:1: Network is unreachable", "no way to it"),
        (f"{_ALL}UNKNOWN: ipv4:192.0.2.1:1: FD Shutdown: connection attempt timed out", "in time"),
        (
            f"{_ALL}UNKNOWN: ipv4:127.0.0.1:1: Ssl handshake failed: SSL_ERROR_SSL: "
            "CERTIFICATE_VERIFY_FAILED",
            "not under the root",
        ),
        (
            f"{_ALL}UNAVAILABLE: ipv4:127.0.0.1:1: Ssl handshake failed: WRONG_VERSION_NUMBER",
            "no link of a control plane",
        ),
        (
            f"{_ALL}UNKNOWN: ipv4:1.1.1.1:1: CERTIFICATE_VERIFY_FAILED: certificate is not yet "
            "valid",
            "this machine's clock",
        ),
        ("Socket closed", "broke off"),
        (f"{_ALL}UNAVAILABLE: ipv4:1.1.1.1:1: Handshake read failed (Socket closed)", "broke off"),
        ("recvmsg:Connection reset by peer", "broke off"),
        ("something that gRPC says only next year", "the connection failed"),
        ("", "the connection failed"),
        (None, "the connection failed"),
    ],
)
def test_every_fault_is_said_in_peoples_words(details: str | None, why: str) -> None:
    said = fault_words(grpc.StatusCode.UNAVAILABLE, details, "box.example:45977")
    assert said.startswith("cannot reach the control plane at box.example:45977: ")
    assert why in said
    assert "; " in said, "and what to do"
    for raw in ("ipv4:", "UNKNOWN", "UNAVAILABLE", "all addresses", "SSL_ERROR"):
        assert raw not in said


PROXY = Proxy(host="p.example", port=3128, variable="https_proxy", credentials="c2VjcmV0")


@pytest.mark.parametrize(
    ("details", "why"),
    [
        # https://github.com/grpc/grpc/issues/9989: a proxy's refusal is no fault of TLS
        ("HTTP proxy returned response code 302", "it redirects (302)"),
        ("HTTP proxy returned response code 407", "it asks for a name and password"),
        ("HTTP proxy returned response code 503", "it cannot reach the control plane (503)"),
        ("Failed to connect to remote host: connect: Connection refused (111)", "nothing listens"),
        ("FD Shutdown: connection attempt timed out", "it does not answer in time"),
    ],
)
def test_a_proxys_fault_is_told_from_the_servers(details: str, why: str) -> None:
    raw = f"{_ALL}UNKNOWN: ipv4:192.0.2.9:3128: {details}"
    said = fault_words(grpc.StatusCode.UNAVAILABLE, raw, "cp.example:443", PROXY)
    begins = "cannot reach the control plane at cp.example:443: the proxy http://p.example:3128 "
    assert said.startswith(begins)
    assert why in said
    assert "TLS" not in said
    assert "c2VjcmV0" not in said


def test_what_is_behind_a_proxy_is_not_the_proxys_fault() -> None:
    raw = f"{_ALL}UNKNOWN: ipv4:192.0.2.9:3128: Ssl handshake failed: CERTIFICATE_VERIFY_FAILED"
    said = fault_words(grpc.StatusCode.UNAVAILABLE, raw, "cp.example:443", PROXY)
    assert "another server answers there" in said
    assert "(through the proxy http://p.example:3128 of https_proxy)" in said
    said = fault_words(grpc.StatusCode.UNAVAILABLE, "Socket closed", "cp.example:443", PROXY)
    assert said.endswith(
        "the connection broke off; check that it runs and that this machine may reach it"
    )


def test_the_servers_own_words_stay_as_they_are() -> None:
    words = "cannot admit the machine: the database is away; it is tried again"
    assert fault_words(grpc.StatusCode.UNAVAILABLE, words, "box:1") == words


def test_the_log_has_what_grpc_said() -> None:
    assert raw_words(grpc.StatusCode.UNAVAILABLE, "Socket\nclosed") == "unavailable: Socket closed"
    assert raw_words(None, None) == ""
