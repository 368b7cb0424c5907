"""How the daemon dials: only the pinned root is trusted, whatever the environment says.

A fixed server name is verified against that private root, so the address may change freely.
"""

import os
from typing import TYPE_CHECKING, Final

from farhand_shared import limits, pki

if TYPE_CHECKING:
    import grpc

    from farhand_daemon.network.ways import Way

# Settings that help to find a fault; every other GRPC_* variable could change whom we trust.
_KEPT: Final = frozenset({"GRPC_VERBOSITY", "GRPC_TRACE"})

ChannelOptions = list[tuple[str, str | int]]


def clean_grpc_environment() -> None:
    """Remove variables that steer gRPC (roots, ciphers, …); call before it is imported."""
    for name in [n for n in os.environ if n.startswith("GRPC_") and n not in _KEPT]:
        del os.environ[name]
    # Its C core logs to stderr by itself; what matters reaches our log as an error of the call.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def channel_options(way: "Way") -> ChannelOptions:
    """Return the options of both listeners' channels, made with the target of ``way``."""
    return [
        ("grpc.ssl_target_name_override", pki.SERVER_NAME),
        ("grpc.max_receive_message_length", limits.MESSAGE_MAX_BYTES),
        ("grpc.max_send_message_length", limits.MESSAGE_MAX_BYTES),
        ("grpc.keepalive_time_ms", limits.KEEPALIVE_TIME_MS),
        ("grpc.keepalive_timeout_ms", limits.KEEPALIVE_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),
        # A new channel means a new connection: what a load balancer needs to spread machines.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        *way.options,
    ]


def server_tls(root_pem: bytes) -> "grpc.ChannelCredentials":
    """Return credentials for the enrolment listener: we have no certificate yet."""
    import grpc

    return grpc.ssl_channel_credentials(root_certificates=root_pem)


def mutual_tls(
    root_pem: bytes, key_pem: bytes, certificate_pem: bytes
) -> "grpc.ChannelCredentials":
    """Return credentials for the link: both ends show a certificate under the same root."""
    import grpc

    return grpc.ssl_channel_credentials(
        root_certificates=root_pem, private_key=key_pem, certificate_chain=certificate_pem
    )


def printable(text: str) -> str:
    """Return a server's words fit for one line of a log or terminal."""
    return "".join(c if c.isprintable() else " " for c in text[:400]).strip()
