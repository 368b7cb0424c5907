"""Direct commands: started over the API, recorded like every other command, followed live.

When the machine's link is here and has a free slot, one statement stores the command as offered and
the offer leaves at once. Otherwise it is queued, and the replica that holds the link claims it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from farhand_control_plane.db import (
    command_inputs,
    command_views,
    commands,
    direct_starts,
    machines,
)
from farhand_control_plane.db.attempts import CommandRef
from farhand_control_plane.db.command_inputs import InputKind
from farhand_control_plane.db.commands import NewCommand
from farhand_control_plane.db.direct_starts import DirectStart, MemberAuthority
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.capability import is_known
from farhand_control_plane.domain.words import MachineStatus
from farhand_control_plane.machines.following import LOOK_S, Chunk, Follower, Position
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.inputs import Inputs
from farhand_control_plane.machines.machine_link import MachineLink
from farhand_shared import file_operation
from farhand_shared.codec import encode_spec, input_digest
from farhand_shared.command import Argv, CommandSpec, Shell
from farhand_shared.errors import Conflict, NotAllowed, NotFound, Unavailable
from farhand_shared.exec_frames import FrameKind, encode_json_frame
from farhand_shared.ids import AttemptId, CommandId, InstanceId, MachineId, MemberId, is_id, new_id
from farhand_shared.limits import START_WITHIN_DEFAULT_MS
from farhand_shared.link_events import Offer

AUTHORITY_BELIEVED_S: Final = 30.0  # only saves a read: the insert compares it with the rows
_SETTLE_S: Final = 10.0  # how long an insert whose answer was lost is asked about
TIER_DIRECT: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    instance_id: InstanceId
    member_id: MemberId
    machine: str  # name or id
    spec: CommandSpec
    wait_offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Accepted:
    command_id: CommandId
    attempt_id: AttemptId
    machine_name: str
    input_kind: InputKind | None = None  # for a client that did not start it


class MachineOffline(Unavailable):
    """The machine is not there, and the caller does not want to wait for it."""

    code = "machine_offline"


class Execs:
    """Starts direct commands and follows attempts; frames are those of ``exec_frames``."""

    def __init__(self, database: Database, hot: Database, hub: Hub) -> None:
        """``hot``: the connections of the statement that every direct command takes."""
        self._database = database
        self._hot = hot
        self._hub = hub
        self.inputs = Inputs(database, hub)
        self._authorities: dict[tuple[InstanceId, MemberId], tuple[float, MemberAuthority]] = {}

    async def run(self, request: ExecRequest) -> AsyncGenerator[Chunk, None]:
        """Store a new command, and return its frames until its result is committed.

        Raises when nothing was stored. The first item begins with ``ACCEPTED``. Not reading on, or
        closing, does not end the command.
        """
        accepted = await self._start_here(request) or await self._queue(request)
        return self._follower(request.instance_id, accepted, Position()).frames()

    async def follow(
        self,
        instance_id: InstanceId,
        member_id: MemberId,
        attempt_id: AttemptId,
        *,
        stdout_offset: int = 0,
        stderr_offset: int = 0,
        input_kind: InputKind | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        """Return the frames of an attempt from these offsets on; ACCEPTED says ``input_kind``.

        Raises NotFound, also for another instance's attempt, and NotAllowed when the machine is
        another member's.
        """
        async with self._database.autocommit() as connection:
            view = await command_views.of_attempt(connection, instance_id, attempt_id)
            if view is None:
                raise NotFound("cannot follow the attempt: there is none of that id")
            machine = await machines.get(connection, instance_id, view.machine_id)
        if machine is None:
            raise NotFound("cannot follow the attempt: its machine is gone")
        if machine.owner_member_id != member_id:
            raise NotAllowed(f"cannot follow the attempt: {machine.name} is another member's")
        accepted = _Accepted(
            command_id=view.command_id,
            attempt_id=view.attempt_id,
            machine_name=view.machine_name,
            input_kind=input_kind,
        )
        position = Position(stdout=stdout_offset, stderr=stderr_offset)
        return self._follower(instance_id, accepted, position).frames()

    async def attempt_of(
        self, instance_id: InstanceId, command_id: CommandId
    ) -> tuple[AttemptId, InputKind]:
        """Return the attempt of a command, and what it reads from; raise NotFound."""
        async with self._database.autocommit() as connection:
            view = await command_views.get(connection, instance_id, command_id)
            if view is None:
                raise NotFound("cannot follow the command: there is none of that id")
            return view.attempt_id, await command_inputs.kind_of(
                connection, instance_id, command_id
            )

    def _follower(
        self, instance_id: InstanceId, accepted: _Accepted, position: Position
    ) -> Follower:
        told = {
            "command_id": accepted.command_id,
            "attempt_id": accepted.attempt_id,
            "machine": accepted.machine_name,
        }
        if accepted.input_kind is not None:
            told["input"] = accepted.input_kind.value
        return Follower(
            self._database,
            self._hub,
            instance_id=instance_id,
            attempt_id=accepted.attempt_id,
            position=position,
            first=encode_json_frame(FrameKind.ACCEPTED, told),
        )

    # The short way

    async def _start_here(self, request: ExecRequest) -> _Accepted | None:
        """Start the command over a link of this replica; None when that is not possible now."""
        link = self._hub.find(request.instance_id, request.machine)
        if (
            link is None
            or link.owner_member_id != request.member_id
            or not is_known(request.spec, link.hello.capability)
            or not link.reserve()
        ):
            return None
        try:
            authority = await self._authority(request)
            if authority is None or authority.role not in authority.policy.may_start:
                return None
            spec = encode_spec(request.spec)
            start = DirectStart(
                ref=CommandRef(
                    attempt_id=AttemptId(new_id()),
                    command_id=CommandId(new_id()),
                    session_id=None,
                    ticket_id=None,
                    title=commands.title_of(text_of(request.spec)),
                ),
                member_id=request.member_id,
                authority=authority,
                spec=spec,
                input_digest=input_digest(spec),
                start_within_ms=START_WITHIN_DEFAULT_MS,
            )
            if not await self._insert(link, start):
                self._authorities.pop((request.instance_id, request.member_id), None)
                return None
        finally:
            link.unreserve()
        if link.is_open:
            run = link.offer(start.ref, _offer(link, start))
            # Its client is here; who follows it elsewhere so early looks once in that time.
            run.quiet_until = time.monotonic() + LOOK_S
            await asyncio.sleep(0)  # the offer is written before its client is prepared for
        # else: it stays offered and unacknowledged, and the machine's next link offers it again.
        return _Accepted(
            command_id=start.ref.command_id,
            attempt_id=start.ref.attempt_id,
            machine_name=link.name,
        )

    async def _insert(self, link: MachineLink, start: DirectStart) -> bool:
        try:
            async with self._hot.autocommit() as connection:
                return await direct_starts.start_direct(connection, link.held, link.journal, start)
        except Unavailable:
            return await self._settle(link, start)

    async def _settle(self, link: MachineLink, start: DirectStart) -> bool:
        """Find out whether an insert whose answer was lost did commit."""
        until = time.monotonic() + _SETTLE_S
        while True:
            try:
                async with self._hot.autocommit() as connection:
                    return await direct_starts.was_started(
                        connection, link.held, start.ref.attempt_id
                    )
            except Unavailable:
                if time.monotonic() >= until:
                    raise
                await asyncio.sleep(0.2)  # back-off

    async def _authority(self, request: ExecRequest) -> MemberAuthority | None:
        key = (request.instance_id, request.member_id)
        known = self._authorities.get(key)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        async with self._database.autocommit() as connection:
            authority = await direct_starts.member_authority(connection, *key)
        if authority is not None:
            self._authorities[key] = (time.monotonic() + AUTHORITY_BELIEVED_S, authority)
        return authority

    # The ordinary way

    async def _queue(self, request: ExecRequest) -> _Accepted:
        async with self._database.transaction() as tx:
            machine = None
            if is_id(request.machine):
                machine = await machines.get(tx, request.instance_id, MachineId(request.machine))
            if machine is None and "\0" not in request.machine:
                machine = await machines.find(tx, request.instance_id, request.machine)
            if machine is None or machine.status is MachineStatus.REVOKED:
                raise NotFound(
                    f"cannot run on {request.machine!r}: no machine has this name or id; "
                    "see farhand machines list"
                )
            commands.refuse_unusable(
                machine.name,
                machine.kind,
                machine.status,
                machine.owner_member_id,
                request.member_id,
            )
            if not request.wait_offline:
                if machine.presence is machines.Presence.OFFLINE:
                    seen = "never" if machine.seen_at is None else f"{machine.seen_at:%F %T} UTC"
                    raise MachineOffline(
                        f"cannot run on {machine.name}: it is offline, last seen {seen}; "
                        "start its daemon, or wait for it with --wait-offline"
                    )
                if machine.status is MachineStatus.PAUSED:
                    raise Conflict(f"cannot run on {machine.name}: it is paused; resume it")
            queued = await commands.enqueue(
                tx,
                NewCommand(
                    instance_id=request.instance_id,
                    machine_id=machine.machine_id,
                    requester_member_id=request.member_id,
                    spec=request.spec,
                    title=text_of(request.spec),
                    tier=TIER_DIRECT,
                ),
            )
        return _Accepted(
            command_id=queued.command_id,
            attempt_id=queued.attempt_id,
            machine_name=machine.name,
        )


def text_of(spec: CommandSpec) -> str:
    """Return a command as people read it; bytes that are no text are shown as escapes."""
    if isinstance(spec.run, Argv):
        words = (word.decode("utf-8", "backslashreplace") for word in spec.run.argv[:64])
        return " ".join(words)
    if isinstance(spec.run, Shell):
        return spec.run.script[:4096].decode("utf-8", "backslashreplace")
    return file_operation.text_of(spec.run)


def _offer(link: MachineLink, start: DirectStart) -> Offer:
    return Offer(
        attempt_id=start.ref.attempt_id,
        command_id=start.ref.command_id,
        stream_epoch=link.held.epoch,
        spec=start.spec,
        input_digest=start.input_digest,
        start_within_ms=start.start_within_ms,
        tier=TIER_DIRECT,
        inferred=False,
        requester=start.member_id,
    )
