"""Why a connection to the control plane failed, in words for people; gRPC's own are for the log."""

from typing import Final

import grpc

from farhand_daemon.channels import printable

_CHECK: Final = "check that it runs and that this machine may reach it"

# What gRPC's texts hold, what that means, and what to do; the first that fits.
_MEANINGS: Final = (
    (
        ("certificate_verify_failed", "certificate verify failed", "hostname verification"),
        "another server answers there, not under the root that this machine pinned",
        "check the address; if the control plane was set up anew, enrol this machine again",
    ),
    (
        ("proxy",),
        "the proxy of this computer's environment does not let it through",
        "let it, or name the control plane in NO_PROXY",
    ),
    (("connection refused",), "nothing listens there", _CHECK),
    (
        ("dns resolution failed", "name resolution", "domain name not found", "c-ares"),
        "its name cannot be resolved",
        "check the name and this machine's network",
    ),
    (
        ("network is unreachable", "no route to host", "network is down", "host is unreachable"),
        "there is no way to it on the network",
        "check this machine's network, VPN and firewall",
    ),
    (
        ("timed out", "timeout", "deadline"),
        "it does not answer in time",
        "check this machine's network, VPN and firewall",
    ),
    (
        ("handshake", "ssl", "wrong version number", "trying to connect an http1.x server"),
        "what answers there is no link of a control plane",
        "check the address and what stands in between",
    ),
    (
        ("connection reset", "socket closed", "broken pipe", "goaway", "connection aborted"),
        "the connection broke off",
        _CHECK,
    ),
)


def fault_words(code: grpc.StatusCode | None, details: str | None, address: str) -> str:
    """Return what cannot be reached, why and what to do: one line, without gRPC's own text.

    Words of the server itself (``cannot …``) are for people already and stay as they are.
    """
    text = printable(details or "")
    if text.startswith("cannot "):
        return text
    lower = text.lower()
    otherwise = "the connection failed"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        otherwise = "it does not answer in time"
    why, what_to_do = next(
        ((why, do) for signs, why, do in _MEANINGS if any(sign in lower for sign in signs)),
        (otherwise, _CHECK),
    )
    return f"cannot reach the control plane at {address}: {why}; {what_to_do}"


def raw_words(code: grpc.StatusCode | None, details: str | None) -> str:
    """Return what gRPC said, for the log."""
    name = "" if code is None else code.name.lower()
    text = printable(details or "")
    return f"{name}: {text}" if name and text else name or text
