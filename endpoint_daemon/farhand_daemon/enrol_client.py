"""The three calls of the enrolment listener: redeem a code, ask for the status, renew.

Each is one short blocking call; the process that makes it is short-lived too.
"""

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar

import grpc

from farhand_daemon.channels import channel_options, printable, server_tls
from farhand_daemon.link_faults import why_not
from farhand_daemon.network.proxies import Proxy
from farhand_daemon.network.ways import way_to
from farhand_proto.v1 import enroll_pb2
from farhand_shared import pki
from farhand_shared.errors import FarhandError, InvalidInput, NotAllowed, Unavailable

_CALL_TIMEOUT_S: Final = 20.0
_Answer = TypeVar("_Answer")

_NOT_THERE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_REFUSED = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
)


class EnrolmentClient:
    """A connection to the enrolment listener; use it as a context manager."""

    def __init__(self, address: str, root_pem: bytes) -> None:
        """Raises InvalidInput or Unavailable where there is no way to ``address``."""
        self._way = way_to(address, os.environ)
        self._channel = grpc.secure_channel(
            self._way.target, server_tls(root_pem), options=channel_options(self._way)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def redeem(self, request: enroll_pb2.RedeemRequest) -> enroll_pb2.RedeemResponse:
        return self._call(
            "enrol", "Redeem", request.SerializeToString(), enroll_pb2.RedeemResponse.FromString
        )

    def status(self, *, machine_id: str, key_pem: bytes, certificate_der: bytes) -> tuple[str, str]:
        """Return (status, the machine's name as it is now)."""
        signed_at_ms = time.time_ns() // 1_000_000
        request = enroll_pb2.StatusRequest(
            certificate=certificate_der,
            signed_at_ms=signed_at_ms,
            signature=pki.sign_status(key_pem, machine_id, signed_at_ms),
        )
        answer = self._call(
            "ask for the status",
            "Status",
            request.SerializeToString(),
            enroll_pb2.StatusResponse.FromString,
        )
        return answer.status, answer.machine_name

    def renew(self, *, old_key_pem: bytes, certificate_der: bytes, csr_der: bytes) -> bytes:
        """Return the certificate (DER) for the new key of ``csr_der``."""
        signed_at_ms = time.time_ns() // 1_000_000
        request = enroll_pb2.RenewRequest(
            certificate=certificate_der,
            csr=csr_der,
            signed_at_ms=signed_at_ms,
            signature=pki.sign_renew(old_key_pem, csr_der, signed_at_ms),
        )
        answer = self._call(
            "renew the certificate",
            "Renew",
            request.SerializeToString(),
            enroll_pb2.RenewResponse.FromString,
        )
        return answer.certificate

    def _call(
        self, doing: str, method: str, request: bytes, read: Callable[[bytes], _Answer]
    ) -> _Answer:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            f"/farhand_proto.v1.Enroll/{method}"
        )
        try:
            answer = call(request, timeout=_CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            raise error_of_call(doing, self._way.address, error, self._way.proxy) from error
        return read(answer)


def error_of_call(
    doing: str, address: str, error: grpc.RpcError, proxy: Proxy | None = None
) -> FarhandError:
    """Return our error for a failed call: unreachable, not trusted, or refused by the server."""
    code, details = error.code(), printable(error.details() or "")
    if details.startswith("cannot ") and code not in _REFUSED:  # the server's own words
        return InvalidInput(details) if code is _INVALID else Unavailable(details)
    if code in _NOT_THERE:
        why, what_to_do = why_not(code, details, proxy)
        refused = NotAllowed if "not under the root" in why else Unavailable
        return refused(f"cannot {doing}: {address}: {why}; {what_to_do}")
    if code in _REFUSED:
        return NotAllowed(details or f"cannot {doing}: the server refused")
    if code is _INVALID:
        return InvalidInput(details or f"cannot {doing}: the server calls the request invalid")
    # Its own text is gRPC's, not for people.
    return Unavailable(
        f"cannot {doing}: the server at {address} failed ({code.name.lower()}); try again later"
    )
