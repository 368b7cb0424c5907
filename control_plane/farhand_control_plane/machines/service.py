"""Everything a replica does for machines, behind one object that wiring starts and stops."""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import grpc
import grpc.aio

from farhand_control_plane.db.listen import ATTEMPTS, Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.machines.admission import Admission
from farhand_control_plane.machines.ca import CertificateAuthority, open_authority
from farhand_control_plane.machines.dispatcher import Dispatcher
from farhand_control_plane.machines.enrol_service import EnrolService
from farhand_control_plane.machines.execs import Execs
from farhand_control_plane.machines.hub import Hub
from farhand_control_plane.machines.input_relay import InputRelay
from farhand_control_plane.machines.limits import OutputLimits
from farhand_control_plane.machines.link_service import LinkService
from farhand_control_plane.machines.machine_link import GOING_AWAY
from farhand_control_plane.machines.news import AttemptNews
from farhand_control_plane.machines.presence import Presence
from farhand_control_plane.machines.recorder import Recorder
from farhand_control_plane.machines.server_leaf import ServerLeaf
from farhand_control_plane.machines.sweeper import Sweeper
from farhand_shared.errors import Unavailable
from farhand_shared.ids import InstanceId, ReplicaId
from farhand_shared.limits import KEEPALIVE_MIN_PING_INTERVAL_MS, MESSAGE_MAX_BYTES, PONG_DUE_S

_log = logging.getLogger(__name__)

HOT_CONNECTIONS: Final = 8  # starts and results of commands
OUTPUT_CONNECTIONS: Final = 4
LISTENER_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
    ("grpc.max_send_message_length", MESSAGE_MAX_BYTES),
    # Below what clients send, or they would be sent away for pinging too often.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_MIN_PING_INTERVAL_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),  # a taken port is an error, not a silent share
)
_GOODBYE_S: Final = 1.0
_EVERY_INTERFACE: Final = ("", "0.0.0.0", "[::]")  # noqa: S104 - recognised, not bound here


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSettings:
    """Where the two listeners bind, and what machines are told to dial."""

    enrol_bind: str = "127.0.0.1:0"
    link_bind: str = "127.0.0.1:0"
    link_advertise: str = ""  # host:port in RedeemResponse; empty: the bound address
    output: OutputLimits = field(default_factory=OutputLimits)
    rival_wait_s: float = PONG_DUE_S
    expire_s: float = 5.0  # how often queued commands are looked at for expiry


class MachineService:
    """CA, enrolment and link listeners, dispatcher, output store and exec of one replica."""

    def __init__(
        self,
        *,
        database: Database,
        listener: Listener,
        dsn: str,
        replica_id: ReplicaId,
        instance_id: InstanceId,
        instance_key: bytes,
        settings: MachineSettings,
    ) -> None:
        """``instance_key``: 32 bytes that wrap the CA key; ``instance_id`` names the root."""
        self._database = database
        self._listener = listener
        self._replica_id = replica_id
        self._instance_id = instance_id
        self._instance_key = instance_key
        self._settings = settings
        self._opened = AsyncExitStack()
        self._hot = Database(
            dsn, application_name="farhand commands", max_connections=HOT_CONNECTIONS
        )
        self._output = Database(
            dsn, application_name="farhand output", max_connections=OUTPUT_CONNECTIONS
        )
        self.hub = Hub()
        self.execs = Execs(database, self._hot, self.hub)
        self._authority: CertificateAuthority | None = None
        self._servers: list[grpc.aio.Server] = []
        self.enrol_port = 0
        self.link_port = 0

    @property
    def root_pem(self) -> bytes:
        """The root's certificate, after ``open``: what machines pin."""
        if self._authority is None:
            raise Unavailable("cannot tell the root: the machine service is not open yet")
        return self._authority.root_pem

    @property
    def link_address(self) -> str:
        """host:port that machines are told to dial; empty: the host they enrolled at."""
        if self._settings.link_advertise:
            return self._settings.link_advertise
        host = self._settings.link_bind.rpartition(":")[0]
        return "" if host in _EVERY_INTERFACE else f"{host}:{self.link_port}"

    async def open(self) -> None:
        """Make or load the CA, bind both listeners, start serving.

        Raises Unavailable naming the address when one is taken; ``close`` undoes what was done.
        """
        stack = self._opened
        stack.callback(self.hub.forget_left, float("inf"))
        for database in (self._hot, self._output):
            await stack.enter_async_context(database)
        authority = await open_authority(self._database, self._instance_id, self._instance_key)
        self._authority = authority
        news = AttemptNews(self._hot)
        stack.push_async_callback(news.close)
        recorder = Recorder(
            results=self._hot, output=self._output, news=news, limits=self._settings.output
        )
        dispatcher = Dispatcher(self._database, self._listener, self.hub, news)
        presence = Presence(self._database, self._listener, self.hub, self._replica_id)
        await presence.open()
        stack.push_async_callback(presence.close)
        stack.push_async_callback(dispatcher.close)
        stack.push_async_callback(recorder.close)
        unsubscribe = self._listener.subscribe(ATTEMPTS, self.hub.tell)
        stack.callback(unsubscribe)
        inputs = self.execs.inputs
        inputs.relay = InputRelay(self._database, self._listener, self.hub, inputs.take_relayed)
        stack.push_async_callback(inputs.relay.close)
        sweeper = Sweeper(self._database, dispatcher, expire_s=self._settings.expire_s)
        sweeper.open()
        stack.push_async_callback(sweeper.close)

        leaf = ServerLeaf(authority, self._replica_id, now=lambda: datetime.now(UTC))
        enrol = EnrolService(self._database, authority, lambda: self.link_address)
        admission = Admission(
            self._database,
            self.hub,
            self._replica_id,
            self._settings.link_bind,
            rival_wait_s=self._settings.rival_wait_s,
        )
        link = LinkService(
            hub=self.hub,
            admission=admission,
            dispatcher=dispatcher,
            recorder=recorder,
            presence=presence,
            inputs=self.execs.inputs,
        )
        self.link_port = await self._listen(
            "link", self._settings.link_bind, leaf.mutual_tls(), link.handlers()
        )
        self.enrol_port = await self._listen(
            "enrolment", self._settings.enrol_bind, leaf.server_tls(), enrol.handlers()
        )

    async def drain(self, within_s: float = 10.0) -> None:
        """Take no new streams and ask every machine to go to another replica.

        Returns when they have left or the time is up; who is still here then is told goodbye.
        ``within_s`` 0: there is no other one, they are told goodbye at once.
        """
        # At once, or a machine that leaves would come back here.
        grace_s = within_s + _GOODBYE_S
        stopping = [asyncio.create_task(server.stop(grace_s)) for server in self._servers]
        for link in self.hub.links() if within_s else ():
            link.session.drain(int(within_s * 1000))
            link.output_due.set()
        try:
            async with asyncio.timeout(within_s):
                await self.hub.until_empty()
        except TimeoutError:
            if within_s:
                _log.warning("%d machines did not leave in time", len(self.hub.held()))
        await self._say_goodbye()
        await asyncio.gather(*stopping)

    async def close(self) -> None:
        """Stop serving; streams end, commands go on where they run. Idempotent."""
        await self._say_goodbye()
        await self._opened.aclose()

    async def _say_goodbye(self) -> None:
        """Let every stream end by a word instead of a broken connection."""
        for link in self.hub.links():
            link.close(GOING_AWAY)
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await self.hub.until_empty()
        except TimeoutError:
            return  # who does not read is cut off

    async def _listen(
        self,
        name: str,
        bind: str,
        credentials: grpc.ServerCredentials,
        handlers: grpc.GenericRpcHandler,
    ) -> int:
        server = grpc.aio.server(options=list(LISTENER_OPTIONS))
        server.add_generic_rpc_handlers((handlers,))
        try:
            port = server.add_secure_port(bind, credentials)
        except RuntimeError as error:
            raise Unavailable(
                f"cannot listen for machines on {bind} ({name}): the address is taken or not "
                "ours; stop what uses it or choose another"
            ) from error
        await server.start()
        self._servers.append(server)
        self._opened.push_async_callback(server.stop, 0.5)
        return port
