"""The enrolment listener: a code becomes a certificate, and a certificate a newer one.

Every answer to a wrong code looks the same and costs the peer one of its five tries a minute.
"""

import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import grpc
import grpc.aio

from farhand_control_plane.db import enrolment, events
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.rejoining import code_for_rejoining
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.words import EventKind, MachineStatus
from farhand_control_plane.machines.ca import CertificateAuthority
from farhand_proto.v1 import enroll_pb2 as pb
from farhand_shared import pki
from farhand_shared.errors import FarhandError, InvalidInput, NotAllowed, NotFound, Unavailable
from farhand_shared.ids import InstanceId, MachineId, new_id
from farhand_shared.limits import RENEW_GRACE_DAYS
from farhand_shared.words import six_words

WRONG_CODES_PER_MINUTE: Final = 5
_REJOIN_GRACE_DAYS: Final = 20 * 365  # the root's life
_SECRET_BYTES: Final = 16
_CSR_MAX_BYTES: Final = 4096
_NAME_MAX: Final = 40
_TRUST_LEVELS: Final = frozenset({"off", "ask", "workspace", "trusted"})

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")
Context = grpc.aio.ServicerContext[_Request, _Answer]


class EnrolService:
    """Redeem, Status and Renew for one replica."""

    def __init__(
        self,
        database: Database,
        authority: CertificateAuthority,
        link_address: Callable[[], str],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``link_address`` returns host:port of the link listener, as machines should dial it."""
        self._database = database
        self._authority = authority
        self._link_address = link_address
        self._wrong = WrongCodes(monotonic)

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return what a server of the enrolment listener serves."""
        return grpc.method_handlers_generic_handler(
            "farhand_proto.v1.Enroll",
            {
                "Redeem": grpc.unary_unary_rpc_method_handler(
                    self._answered(self.redeem), pb.RedeemRequest.FromString, _serialise
                ),
                "Status": grpc.unary_unary_rpc_method_handler(
                    self._answered(self.status), pb.StatusRequest.FromString, _serialise
                ),
                "Renew": grpc.unary_unary_rpc_method_handler(
                    self._answered(self.renew), pb.RenewRequest.FromString, _serialise
                ),
            },
        )

    async def redeem(self, request: pb.RedeemRequest, peer: str) -> pb.RedeemResponse:
        """Turn an unused code and a key's request into a pending machine and its certificate.

        The same code with the same key again within ten minutes gets the same certificate: the
        daemon may have died between the answer and writing it down.
        """
        self._wrong.check(peer)
        try:
            return await self._redeem(request)
        except NotAllowed:
            self._wrong.note(peer)
            raise

    async def _redeem(self, request: pb.RedeemRequest) -> pb.RedeemResponse:
        if len(request.code_secret) != _SECRET_BYTES or len(request.csr) > _CSR_MAX_BYTES:
            raise InvalidInput("cannot enrol: the request is malformed; update the daemon")
        spki = pki.spki_of_csr(request.csr)
        key = pki.spki_sha256(spki)
        async with self._database.transaction() as tx:
            code = await enrolment.lock_code(tx, request.code_secret)
            if code is None:
                raise NotAllowed("cannot enrol: the code is wrong; type it again or make a new one")
            if code.used:
                known = await enrolment.redemption(tx, code)
                if known is None or not code.may_repeat or code.used_spki_sha256 != key:
                    raise NotAllowed("cannot enrol: the code was used already; make a new one")
                return self._response(known, code.certificate_der or b"")
            if code.expired:
                raise NotAllowed(
                    "cannot enrol: the code has expired after 10 minutes; make a new one"
                )
            code = await self._for_rejoining(tx, code, request)
            machine_id = code.for_machine_id or MachineId(new_id())
            certificate = self._authority.issue(request.csr, code.instance_id, machine_id)
            words = six_words(spki, self._authority.root_spki_sha256, request.code_secret)
            name = await _store(tx, code, request, machine_id, words)
            await self._record(tx, code.instance_id, machine_id, certificate)
            await enrolment.use_code(
                tx, code, machine_id=machine_id, spki_sha256=key, certificate_der=certificate
            )
            await events.emit_of_machine(
                tx,
                code.instance_id,
                EventKind.MACHINE_ENROLLED,
                machine_id,
                name,
                words=list(words),
            )
        made = enrolment.Redemption(
            machine_id=machine_id, name=name, status=MachineStatus.PENDING, words=words
        )
        return self._response(made, certificate)

    async def _for_rejoining(
        self, tx: Tx, code: enrolment.LockedCode, request: pb.RedeemRequest
    ) -> enrolment.LockedCode:
        """Return the code as it is for a peer that proves to be a machine of before."""
        if not request.HasField("rejoin"):
            return code
        proof = request.rejoin
        # However old: it is the code that opens the door, the proof only says which machine it is.
        identity = self._authority.machine_of(proof.certificate, grace_days=_REJOIN_GRACE_DAYS)
        pki.verify_rejoin(
            proof.certificate, request.csr, proof.signed_at_ms, proof.signature, now_ms=_wall_ms()
        )
        return await code_for_rejoining(
            tx,
            code,
            InstanceId(identity.instance_id),
            MachineId(identity.machine_id),
            pki.serial_of(proof.certificate),
        )

    async def status(self, request: pb.StatusRequest, peer: str) -> pb.StatusResponse:
        """Tell a machine that proves its key how it stands."""
        identity = self._authority.machine_of(request.certificate, grace_days=RENEW_GRACE_DAYS)
        pki.verify_status(
            request.certificate,
            identity.machine_id,
            request.signed_at_ms,
            request.signature,
            now_ms=_wall_ms(),
        )
        async with self._database.transaction() as tx:
            row = await enrolment.lock_certificate(
                tx, InstanceId(identity.instance_id), pki.serial_of(request.certificate)
            )
        if row is None:
            raise NotFound("cannot tell the status: this certificate is not known; enrol again")
        return pb.StatusResponse(status=row.machine_status.value, machine_name=row.machine_name)

    async def renew(self, request: pb.RenewRequest, peer: str) -> pb.RenewResponse:
        """Issue a certificate for a new key against a proof of the old one.

        Works up to 30 days after the old one's end. One that was replaced long ago renews nothing
        once it has expired, or a stolen old key would open the door for ever.
        """
        if len(request.csr) > _CSR_MAX_BYTES:
            raise InvalidInput("cannot renew: the request is malformed; update the daemon")
        identity = self._authority.machine_of(request.certificate, grace_days=RENEW_GRACE_DAYS)
        pki.verify_renew(
            request.certificate,
            request.csr,
            request.signed_at_ms,
            request.signature,
            now_ms=_wall_ms(),
        )
        instance_id, machine_id = InstanceId(identity.instance_id), MachineId(identity.machine_id)
        serial = pki.serial_of(request.certificate)
        async with self._database.transaction() as tx:
            row = await enrolment.lock_certificate(tx, instance_id, serial)
            if row is None or row.machine_id != machine_id:
                raise NotAllowed("cannot renew: this certificate is not known; enrol again")
            if row.revoked or row.machine_status is MachineStatus.REVOKED:
                raise NotAllowed(f"cannot renew: {row.machine_name} is revoked; enrol it again")
            if row.replaced and not row.may_repeat:
                self._authority.machine_of(request.certificate)  # NotAllowed once it has expired
            certificate = self._authority.issue(request.csr, instance_id, machine_id)
            await self._record(tx, instance_id, machine_id, certificate)
            await enrolment.mark_replaced(tx, instance_id, serial)
        return pb.RenewResponse(certificate=certificate)

    async def _record(
        self, tx: Tx, instance_id: InstanceId, machine_id: MachineId, certificate: bytes
    ) -> None:
        not_before, not_after = pki.validity(certificate)
        await enrolment.insert_certificate(
            tx,
            instance_id,
            machine_id,
            serial=pki.serial_of(certificate),
            spki_sha256=pki.spki_sha256(pki.spki_of_certificate(certificate)),
            not_before=not_before,
            not_after=not_after,
        )

    def _response(self, made: enrolment.Redemption, certificate: bytes) -> pb.RedeemResponse:
        return pb.RedeemResponse(
            machine_id=made.machine_id,
            machine_name=made.name,
            certificate=certificate,
            link_address=self._link_address(),
            words=made.words,
            active=made.status is MachineStatus.ACTIVE,
        )

    def _answered(
        self, call: Callable[[_Request, str], Awaitable[_Answer]]
    ) -> Callable[[_Request, Context[_Request, _Answer]], Awaitable[_Answer]]:
        """Turn our errors into gRPC's; the text is fit for the person at the machine."""

        async def answered(request: _Request, context: Context[_Request, _Answer]) -> _Answer:
            try:
                return await call(request, peer_host(context.peer()))
            except FarhandError as error:
                await context.abort(status_of(error), str(error))

        return answered


async def _store(
    tx: Tx,
    code: enrolment.LockedCode,
    request: pb.RedeemRequest,
    machine_id: MachineId,
    words: Sequence[str],
) -> str:
    """Store the machine that the code makes, or that it lets in; return its name."""
    trust_level = request.trust_level if request.trust_level in _TRUST_LEVELS else "off"
    daemon_version = request.daemon_version[:_NAME_MAX]
    chosen_by = request.chosen_by[:_NAME_MAX]
    if code.for_machine_id is not None:
        return await enrolment.let_in(
            tx,
            code,
            words=words,
            capability=request.capability,
            daemon_version=daemon_version,
            trust_level=trust_level,
            chosen_by=chosen_by,
        )
    return await enrolment.insert_machine(
        tx,
        code,
        machine_id=machine_id,
        wanted_name=machine_name(code.name or request.name_hint),
        words=words,
        capability=request.capability,
        daemon_version=daemon_version,
        trust_level=trust_level,
        chosen_by=chosen_by,
    )


class WrongCodes:
    """Counts wrong codes by peer over the last minute; lives as long as the replica."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._at: dict[str, deque[float]] = {}

    def check(self, peer: str) -> None:
        """Raise TooManyTries when the peer has used up its tries."""
        since = self._monotonic() - 60.0
        for known in list(self._at):
            times = self._at[known]
            while times and times[0] <= since:
                times.popleft()
            if not times:
                del self._at[known]
        if len(self._at.get(peer, ())) >= WRONG_CODES_PER_MINUTE:
            raise TooManyTries(
                f"cannot enrol: {WRONG_CODES_PER_MINUTE} wrong codes in a minute from your "
                "address; wait a minute"
            )

    def note(self, peer: str) -> None:
        self._at.setdefault(peer, deque()).append(self._monotonic())


class TooManyTries(Unavailable):
    """A peer that guesses; the same call may work in a minute."""


def machine_name(text: str) -> str:
    """Return a name fit for a command line: lower case, digits and dashes, 40 at most."""
    label = text.split(".", 1)[0].lower() if "." in text else text.lower()
    name = re.sub(r"[^a-z0-9]+", "-", label).strip("-")[:_NAME_MAX].strip("-")
    return name or "machine"


def peer_host(peer: str) -> str:
    """Return the address part of gRPC's ``ipv4:1.2.3.4:567``; its port changes with every try."""
    return peer.rsplit(":", 1)[0]


def status_of(error: FarhandError) -> grpc.StatusCode:
    match error:
        case TooManyTries():
            return grpc.StatusCode.RESOURCE_EXHAUSTED
        case InvalidInput():
            return grpc.StatusCode.INVALID_ARGUMENT
        case NotFound():
            return grpc.StatusCode.NOT_FOUND
        case NotAllowed():
            return grpc.StatusCode.PERMISSION_DENIED
        case Unavailable():
            return grpc.StatusCode.UNAVAILABLE
        case _:
            return grpc.StatusCode.FAILED_PRECONDITION


def _serialise(message: pb.RedeemResponse | pb.StatusResponse | pb.RenewResponse) -> bytes:
    return message.SerializeToString()


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
