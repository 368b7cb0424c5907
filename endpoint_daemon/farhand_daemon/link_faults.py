"""Why a connection to the control plane failed, in words for people; gRPC's own are for the log."""

import re
from typing import Final

import grpc

from farhand_daemon.channels import printable
from farhand_daemon.network.proxies import Proxy, proxy_refusal

_CHECK: Final = "check that it runs and that this machine may reach it"
_CLOCK: Final = "check this machine's clock; if it is right, the control plane's is wrong"

# What gRPC's texts hold, what that means, and what to do; the first that fits.
_MEANINGS: Final = (
    (
        ("certificate is not yet valid", "certificate has expired"),
        "its certificate is not valid at the time that this machine's clock shows",
        _CLOCK,
    ),
    (
        ("certificate_verify_failed", "certificate verify failed", "hostname verification"),
        "another server answers there, not under the root that this machine pinned",
        "check the address; if the control plane was set up anew, enrol this machine again",
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
        ("connection reset", "socket closed", "broken pipe", "goaway", "connection aborted"),
        "the connection broke off",
        _CHECK,
    ),
    (
        ("handshake", "ssl", "wrong version number", "trying to connect an http1.x server"),
        "what answers there is no link of a control plane",
        "check the address and what stands in between",
    ),
)
_PROXY_ANSWER: Final = re.compile(r"proxy returned response code (\d{3})")


def why_not(
    code: grpc.StatusCode | None, details: str | None, proxy: Proxy | None = None
) -> tuple[str, str]:
    """Return (what is wrong, what to do) of a failed call, without gRPC's own text.

    ``proxy``: through which it went.
    """
    lower = printable(details or "").lower()
    if proxy is not None:
        if answered := _PROXY_ANSWER.search(lower):
            why, what_to_do = proxy_refusal(int(answered[1]))
            return f"the proxy {proxy} of {proxy.variable}: {why}", what_to_do
        if "http connect" in lower or "http proxy" in lower:
            why = "what answers there is no HTTP proxy"
            return f"the proxy {proxy} of {proxy.variable}: {why}", f"correct {proxy.variable}"
    why, what_to_do = _meaning(code, lower)
    if proxy is not None and lower.startswith("failed to connect"):
        # The first hop is the proxy: until it has answered, nothing is said of what is behind it.
        if "handshake failed" not in lower:
            why = f"the proxy {proxy} of {proxy.variable}: {why}"
            what_to_do = f"{what_to_do}; or correct {proxy.variable}"
        else:
            why = f"{why} (through the proxy {proxy} of {proxy.variable})"
    return why, what_to_do


def _meaning(code: grpc.StatusCode | None, lower: str) -> tuple[str, str]:
    otherwise = "the connection failed"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        otherwise = "it does not answer in time"
    elif code in (grpc.StatusCode.CANCELLED, grpc.StatusCode.ABORTED):
        otherwise = "it ended the connection"
    return next(
        ((why, do) for signs, why, do in _MEANINGS if any(sign in lower for sign in signs)),
        (otherwise, _CHECK),
    )


def fault_words(
    code: grpc.StatusCode | None,
    details: str | None,
    address: str,
    proxy: Proxy | None = None,
) -> str:
    """Return what cannot be reached, why and what to do: one line, without gRPC's own text.

    Words of the server itself (``cannot …``) are for people already and stay as they are.
    """
    text = printable(details or "")
    if text.startswith("cannot "):
        return text
    why, what_to_do = why_not(code, details, proxy)
    return f"cannot reach the control plane at {address}: {why}; {what_to_do}"


def raw_words(code: grpc.StatusCode | None, details: str | None) -> str:
    """Return what gRPC said, for the log."""
    name = "" if code is None else code.name.lower()
    text = printable(details or "")
    return f"{name}: {text}" if name and text else name or text
