"""One connection to the link listener, before and after a stream runs over it."""

import asyncio
import os
from typing import Self

import grpc.aio

from farhand_daemon.channels import channel_options, mutual_tls
from farhand_daemon.identity import MachineCredentials
from farhand_daemon.network.ways import Way, find_way
from farhand_shared.errors import Unavailable


class Line:
    """A channel of its own for every stream: a balancer may choose another replica."""

    def __init__(self, channel: grpc.aio.Channel, way: Way, certificate_pem: str) -> None:
        self.channel = channel
        self.way = way
        self.certificate_pem = certificate_pem  # shown on it

    @classmethod
    async def open(cls, identity: MachineCredentials) -> Self:
        """Return a channel that connects when it is used; raises where there is no way."""
        way = await find_way(identity.link_address, os.environ)
        credentials = mutual_tls(
            identity.root_pem.encode(),
            identity.key_pem.encode(),
            identity.certificate_pem.encode(),
        )
        channel = grpc.aio.secure_channel(way.target, credentials, options=channel_options(way))
        return cls(channel, way, identity.certificate_pem)

    async def ready(self, within_s: float) -> None:
        """Connect, to the end of the TLS handshake; raise Unavailable when it takes longer."""
        try:
            async with asyncio.timeout(within_s):
                await self.channel.channel_ready()
        except TimeoutError:
            raise Unavailable(
                f"cannot reach the control plane at {self.way.address}: no new connection within "
                f"{within_s:.0f} s; the old one stays"
            ) from None

    async def close(self) -> None:
        await self.channel.close()
