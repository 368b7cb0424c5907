"""What every provisioner keeps to, whatever its environments are.

A test class of one inherits from this, and gives the fixture ``made``: a Made.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from farhand_control_plane.db import enrolment, environment_leases
from farhand_control_plane.db.environment_leases import Lease
from farhand_control_plane.provisioning.provisioner import Provisioner, Redeemed, Request
from farhand_shared.errors import InvalidInput, NotAllowed
from farhand_shared.ids import ReplicaId, new_id
from farhand_shared.redact import Secret


@dataclass(eq=False)
class Made:
    """A provisioner, and the yard in which it works; ``left`` says what is there of anything."""

    provisioner: Provisioner
    yard: Any  # tests.integration…provisioning.conftest.Yard
    left: Callable[[], Any]  # something false when nothing is left

    async def wanted(self, **changes: Any) -> Request:
        """Return a request as the loop makes it: of a row, with codes and words of the database."""
        yard = self.yard
        machine_id = await yard.want()
        async with yard.database.transaction() as tx:
            leases = await environment_leases.claim(
                tx,
                yard.instance.instance_id,
                provisioner="local_process",
                place=await self.provisioner.place(),
                replica_id=ReplicaId(new_id()),
                lease_s=600.0,
                limit=10,
            )
        lease: Lease = next(one for one in leases if one.machine_id == machine_id)

        async def code() -> Secret:
            async with yard.database.transaction() as tx:
                return await environment_leases.make_code(tx, lease)

        async def confirm(said: Redeemed) -> None:
            assert said.machine_id == lease.machine_id
            async with yard.database.transaction() as tx:
                await enrolment.confirm(
                    tx,
                    lease.instance_id,
                    lease.requester_member_id,
                    lease.machine_id,
                    said.words,
                )

        request = Request(
            environment_id=machine_id,
            name=lease.name,
            url=yard.url,
            lifetime_s=600.0,
            code=code,
            confirm=confirm,
        )
        return replace(request, **changes)

    async def listed(self) -> dict[str, bool]:
        return {one.environment_id: one.lives for one in await self.provisioner.list_all()}


class ProvisionerContract:
    async def test_what_is_made_comes_as_that_machine_and_goes_without_a_trace(
        self, made: Made
    ) -> None:
        await made.provisioner.destroy(new_id())  # never was
        assert await made.provisioner.place() == await made.provisioner.place()
        request = await made.wanted()
        await made.provisioner.create(request)
        assert await made.listed() == {request.environment_id: True}
        view = await made.yard.online(request.environment_id)
        assert (view.name, view.trust_level, view.chosen_by) == (request.name, "trusted", "preset")
        # Made again it is the same, and goes on.
        await made.provisioner.create(replace(request, confirmed=True, code=_no_code))
        assert await made.listed() == {request.environment_id: True}
        seen = await made.yard.lab.exec(made.yard.replica, view.name, "/bin/sh", "-c", "cd; pwd")
        assert seen.bytes_of().decode().strip().endswith("/work"), "HOME lies in it"
        for _ in range(2):  # destroying may be asked for at any time
            await made.provisioner.destroy(request.environment_id)
            assert await made.listed() == {}
            assert not made.left()

    async def test_words_that_are_wrong_let_nothing_in(self, made: Made) -> None:
        async def refuse(said: Redeemed) -> None:
            raise NotAllowed("cannot confirm: the six words differ")

        request = await made.wanted(confirm=refuse)
        with pytest.raises(NotAllowed, match="six words differ"):
            await made.provisioner.create(request)
        await made.provisioner.destroy(request.environment_id)
        assert not made.left()

    async def test_what_is_broken_off_is_begun_anew(self, made: Made) -> None:
        entered = asyncio.Event()

        async def hang(said: Redeemed) -> None:
            entered.set()
            await asyncio.Event().wait()

        request = await made.wanted()
        making = asyncio.create_task(made.provisioner.create(replace(request, confirm=hang)))
        await asyncio.wait_for(entered.wait(), 60)
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        await made.provisioner.create(request)
        assert await made.listed() == {request.environment_id: True}
        await made.yard.online(request.environment_id)

    async def test_two_are_apart(self, made: Made) -> None:
        one, other = await made.wanted(), await made.wanted()
        await asyncio.gather(*(made.provisioner.create(request) for request in (one, other)))
        await made.provisioner.destroy(one.environment_id)
        assert await made.listed() == {other.environment_id: True}
        await made.yard.online(other.environment_id)


async def _no_code() -> Secret:
    raise AssertionError("what is confirmed needs no code")


async def refuses_what_is_no_id(provisioner: Provisioner) -> None:
    """Ids become paths and names of commands: nothing else may."""
    with pytest.raises(InvalidInput):
        await provisioner.destroy("../..")
