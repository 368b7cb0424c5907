"""What commands read: taken from whoever writes it, handed to the machine as fast as it is read.

A writer numbers its bytes and sends them again until they are accepted; how far a command has come
is the machine's word, so input goes on after a cut link, a killed daemon and a restarted replica. A
command that does not read holds its writer: nothing is kept beyond one window.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from farhand_control_plane.db import command_inputs, command_views, machines, members
from farhand_control_plane.db.command_inputs import InputKind
from farhand_control_plane.db.pool import Database
from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.machines.attempt_run import AttemptRun
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.input_buffer import (
    InputBuffer,
    InputHeld,
    InputRequest,
    InputState,
    Writer,
)
from farhand_control_plane.machines.input_relay import InputRelay
from farhand_control_plane.machines.machine_link import MachineLink
from farhand_shared.codec_command import is_window
from farhand_shared.command import TERMINAL, AttemptState
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound, TooLarge
from farhand_shared.ids import AttemptId, InstanceId, MemberId, new_id
from farhand_shared.limits import INPUT_WINDOW_BYTES, KIB

PIECE_BYTES: Final = 256 * KIB  # what is best sent at once: a quarter of the window
WAIT_S: Final = 10.0  # a call that waits for room, or for the machine, is answered after it
LOOK_S: Final = 1.0  # the net under lost notifications, while no link has the attempt
_KEPT_S: Final = 900.0  # a buffer of an attempt whose link is gone, after its writer's last word
_KNOWN: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What was looked up of an attempt once: who may write, and that it reads."""

    instance_id: InstanceId
    member_name: str
    is_elsewhere: bool = False  # it runs, and another replica holds its machine's link


class Inputs:
    """The input of all commands whose machine's link is on this replica."""

    def __init__(self, database: Database, hub: Hub) -> None:
        self._database = database
        self._hub = hub
        self._buffers: dict[AttemptId, InputBuffer] = {}
        self.relay: InputRelay | None = None  # to the replicas that hold other links
        self._known: OrderedDict[tuple[AttemptId, MemberId], _Known] = OrderedDict()

    # For writers

    async def write(self, request: InputRequest, *, wait_s: float = WAIT_S) -> InputState:
        """Take some of a command's input, waiting while it does not read what there is.

        Returns when all of it is accepted, when it takes no more, or after ``wait_s`` with what was
        accepted. Without data: when all below ``offset`` is taken. Raises NotFound, NotAllowed,
        Conflict for a command that was given no input, InputHeld while somebody else writes.
        """
        if len(request.data) > INPUT_WINDOW_BYTES:
            raise TooLarge(
                "the input", len(request.data), INPUT_WINDOW_BYTES, "send less at a time"
            )
        if request.size is not None and not is_window(*request.size):
            raise InvalidInput("cannot resize the terminal: rows and columns are 1 to 65,535 each")
        return await self._write(request, wait_s, self.relay)

    async def take_relayed(self, request: InputRequest, wait_s: float) -> InputState:
        """Take what another replica passes on, if the link is still here."""
        return await self._write(request, wait_s, None)

    async def _write(
        self, request: InputRequest, wait_s: float, relay: InputRelay | None
    ) -> InputState:
        until = time.monotonic() + wait_s
        with self._hub.watch(request.attempt_id) as news:
            while True:
                news.clear()
                held = self._hub.run(request.attempt_id)
                known = await self._look_up(request)
                if isinstance(known, InputState):
                    return known
                left_s = until - time.monotonic()
                if held is None and known.is_elsewhere and relay is not None:
                    answer = await relay.ask(request, max(0.0, left_s))
                    if answer is not None and not _is_unheld(answer, request):
                        return answer
                    left_s = until - time.monotonic()
                state = None
                if held is not None:
                    state = self._write_here(*held, request, known, last=left_s <= 0)
                elif left_s <= 0:
                    state = _untouched(request)
                if state is not None:
                    return state
                await _within(min(left_s, LOOK_S) if held is None else left_s, news)

    async def pump(
        self,
        instance_id: InstanceId,
        member_id: MemberId,
        attempt_id: AttemptId,
        chunks: AsyncIterator[bytes],
    ) -> int:
        """Stream a whole input to a command and its end; return how many bytes it took.

        For callers in this process. Reads ``chunks`` only as fast as the command reads, and stops
        when it takes no more. What was accepted and not taken is sent again when this replica has
        to.
        """
        writer_id = new_id()
        kept, kept_from, end = bytearray(), 0, False
        state = InputState(accepted=0, taken=0, ended=False, closed=False)
        while not state.closed:
            while not end and len(kept) < PIECE_BYTES + state.accepted - kept_from:
                chunk = await anext(chunks, None)
                end = chunk is None
                kept += chunk or b""
            at = max(0, state.accepted - kept_from)
            data = bytes(kept[at : at + PIECE_BYTES])
            state = await self.write(
                InputRequest(
                    instance_id=instance_id,
                    member_id=member_id,
                    attempt_id=attempt_id,
                    writer_id=writer_id,
                    offset=kept_from + at,
                    data=data,
                    end=end and at + len(data) == len(kept),
                )
            )
            if state.taken > kept_from:
                del kept[: state.taken - kept_from]
                kept_from = state.taken
        return state.taken

    # For the links

    def read(self, attempt_id: str, offset: int, size: int) -> bytes:
        """Return what a link is about to send."""
        buffer = self._buffers.get(AttemptId(attempt_id))
        return b"" if buffer is None else buffer.read(offset, size)

    def taken(self, attempt_id: str, offset: int, *, closed: bool) -> None:
        """Note what a machine said, and let writers go on."""
        buffer = self._buffers.get(AttemptId(attempt_id))
        if buffer is not None:
            buffer.take(offset, closed=closed)
            self._hub.tell(attempt_id)

    def resume(self, link: MachineLink) -> None:
        """Tell a new link's session what is held for the attempts that go on there."""
        for attempt_id in link.runs:
            buffer = self._buffers.get(attempt_id)
            if buffer is not None:
                self._hand_over(link, attempt_id, buffer, size=buffer.size)

    def forget(self, attempt_id: str) -> None:
        """Drop the input of a command that is over."""
        if self._buffers.pop(AttemptId(attempt_id), None) is not None:
            self._hub.tell(attempt_id)

    # One try

    def _write_here(
        self,
        link: MachineLink,
        run: AttemptRun,
        request: InputRequest,
        known: _Known,
        *,
        last: bool,
    ) -> InputState | None:
        """Take what there is room for; None to try again when something has moved."""
        attempt_id = request.attempt_id
        position = link.session.input_of(attempt_id)
        buffer = self._buffers.get(attempt_id)
        if run.result is not None or position is None:
            return _over(request, buffer)
        if buffer is None:
            self._drop_unused()
            buffer = InputBuffer(position.sent, taken=position.taken, now=time.monotonic())
            buffer.closed = position.closed
            self._buffers[attempt_id] = buffer
        elif position.sent < buffer.start:
            buffer.rewind(position.sent)
        buffer.used_at = time.monotonic()
        if _hold(buffer, request, known):
            self._hub.tell(attempt_id)  # whoever held it and waits is told
        if request.size is not None and request.size != buffer.size:
            buffer.size = request.size
            self._hand_over(link, attempt_id, buffer, size=request.size)
        if buffer.closed or request.offset is None or request.offset > buffer.received:
            return _state(buffer)
        fresh = b"" if buffer.ended else request.data[buffer.received - request.offset :]
        fits = len(fresh) <= buffer.room()
        if not fits and last:
            fresh = fresh[: buffer.room()]
        if fits or last:
            buffer.append(fresh)
            end = request.end and fits
            if fresh or (end and not buffer.ended):
                buffer.ended = buffer.ended or end
                self._hand_over(link, attempt_id, buffer)
            elif not request.data and not last and not _is_taken(buffer, request):
                return None
            return _state(buffer)
        return None

    def _hand_over(
        self,
        link: MachineLink,
        attempt_id: AttemptId,
        buffer: InputBuffer,
        *,
        size: tuple[int, int] | None = None,
    ) -> None:
        if size is not None:
            link.session.resize(attempt_id, *size)
        link.session.input(attempt_id, buffer.received, ended=buffer.ended)
        if link.session.has_frame:
            link.output_due.set()

    def _drop_unused(self) -> None:
        before = time.monotonic() - _KEPT_S
        for attempt_id, buffer in list(self._buffers.items()):
            if buffer.used_at < before and self._hub.run(attempt_id) is None:
                del self._buffers[attempt_id]

    async def _look_up(self, request: InputRequest) -> _Known | InputState:
        """Return who may write; the end of a command that is over. Asks the rows once."""
        key = (request.attempt_id, request.member_id)
        known = self._known.get(key)
        running = self._hub.run(request.attempt_id) is not None
        if known is not None and known.instance_id == request.instance_id and running:
            return known
        async with self._database.autocommit() as connection:
            view = await command_views.of_attempt(
                connection, request.instance_id, request.attempt_id
            )
            if view is None:
                raise NotFound("cannot write to the command: there is none of that id")
            if view.state in TERMINAL and not running:
                return _over(request, None)
            if known is None:
                known = await self._may_write(connection, request, view)
        is_elsewhere = view.machine_online and view.state is not AttemptState.QUEUED
        known = replace(known, is_elsewhere=is_elsewhere and not running)
        self._known[key] = known
        if len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return known

    async def _may_write(
        self, connection: Tx, request: InputRequest, view: command_views.CommandView
    ) -> _Known:
        machine = await machines.get(connection, request.instance_id, view.machine_id)
        if machine is None or machine.owner_member_id != request.member_id:
            raise NotAllowed(
                f"cannot write to the command: {view.machine_name} is another member's machine"
            )
        if view.requester_member_id != request.member_id:
            raise NotAllowed("cannot write to the command: somebody else asked for it")
        kind = await command_inputs.kind_of(connection, request.instance_id, view.command_id)
        if kind is InputKind.NONE:
            raise Conflict(
                "cannot write to the command: it was started without input; "
                "start it with --stdin or --pty"
            )
        member = await members.get(connection, request.instance_id, request.member_id)
        return _Known(
            instance_id=request.instance_id,
            member_name="somebody" if member is None else member.name,
        )


def _hold(buffer: InputBuffer, request: InputRequest, known: _Known) -> bool:
    """Let one write at a time: the first who does, until another takes it over on purpose.

    Returns whether somebody has just taken it over.
    """
    holder = buffer.writer
    if holder is not None and holder.writer_id != request.writer_id and not request.take:
        raise InputHeld(
            f"cannot write to the command: {holder.name} holds its input since "
            f"{holder.since:%H:%M:%S} UTC; take it over with --take"
        )
    if holder is not None and holder.writer_id == request.writer_id:
        return False
    name = f"{known.member_name} at {request.where}" if request.where else known.member_name
    buffer.writer = Writer(writer_id=request.writer_id, name=name, since=datetime.now(UTC))
    return holder is not None


def _state(buffer: InputBuffer) -> InputState:
    return InputState(
        accepted=buffer.received, taken=buffer.taken, ended=buffer.ended, closed=buffer.closed
    )


def _is_taken(buffer: InputBuffer, request: InputRequest) -> bool:
    """Tell whether the command has all that the writer asks about."""
    if buffer.ended:
        return buffer.closed
    return request.offset is None or buffer.taken >= request.offset


def _over(request: InputRequest, buffer: InputBuffer | None) -> InputState:
    """Return the state of a command that is over: whatever is still written goes nowhere."""
    offset = request.offset or 0
    accepted = offset if buffer is None else buffer.received
    taken = 0 if buffer is None else buffer.taken
    return InputState(accepted=accepted, taken=taken, ended=True, closed=True)


def _is_unheld(answer: InputState, request: InputRequest) -> bool:
    """Tell whether the one that was asked did not hold the link any more either."""
    return answer == _untouched(request) and bool(request.data or request.end)


def _untouched(request: InputRequest) -> InputState:
    """Return the state of a command that has not begun, or whose machine is away."""
    return InputState(accepted=request.offset or 0, taken=0, ended=False, closed=False)


async def _within(seconds: float, news: asyncio.Event) -> None:
    """Wait for news, but no longer."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return
