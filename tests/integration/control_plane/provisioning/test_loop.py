"""Environments that are wanted, made, used, destroyed and found again, on real daemons."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import replace

import pytest

from farhand_control_plane.db import machines
from farhand_control_plane.domain.environments import Limits
from farhand_control_plane.provisioning import loop as provisioning_loop
from farhand_control_plane.provisioning.keeper import keeper_of
from farhand_control_plane.provisioning.local_process import LocalProcess
from farhand_control_plane.provisioning.provisioner import Found, Request
from farhand_shared.errors import Conflict, InvalidInput, Unavailable
from farhand_shared.ids import new_id
from tests.integration.control_plane.provisioning.conftest import OFFER, Yard


async def test_a_wish_becomes_a_machine_that_runs_commands_and_leaves_nothing(yard: Yard) -> None:
    async with yard.loop():
        machine_id = await yard.want()
        await yard.is_(machine_id, "ready")
        view = await yard.online(machine_id)
        assert (view.kind, view.status, view.trust_level) == ("on_demand", "active", "trusted")
        assert view.chosen_by == "preset"
        script = (
            'pwd; echo "$HOME"; touch ~/mine; chmod 000 .; (setsid sleep 600 >/dev/null 2>&1 &)'
        )
        seen = await yard.lab.exec(yard.replica, view.name, "/bin/sh", "-c", script)
        work = f"{yard.folder}/{machine_id}/work"
        assert seen.bytes_of().decode().split() == [work, work]
        await yard.destroy(machine_id)
        row = await yard.is_(machine_id, "destroyed")
    assert (row["status"], row["reason"]) == ("revoked", "a test")
    assert yard.left() == ([], set())


async def test_two_replicas_never_make_one_twice(yard: Yard) -> None:
    async with yard.loop(), yard.loop():
        wanted = [await yard.want(), await yard.want()]
        for machine_id in wanted:
            await yard.is_(machine_id, "ready")
            await yard.online(machine_id)
        codes = await yard.lab.sql("select used_at from enrolment_codes")
    assert len(codes) == 2, "each was enrolled once"
    assert all(code["used_at"] is not None for code in codes)
    assert yard.left()[0] == sorted(wanted)


async def test_what_was_made_without_a_row_is_found_and_destroyed(yard: Yard) -> None:
    provisioner = LocalProcess(yard.site)
    machine_id = await yard.want()
    async with yard.loop():
        await yard.is_(machine_id, "ready")
    await yard.lab.sql("delete from environments")
    assert [one.environment_id for one in await provisioner.list_all()] == [machine_id]
    async with yard.loop():

        async def gone() -> bool:
            return yard.left() == ([], set())

        await yard.until(gone)


async def test_one_whose_folder_is_gone_is_given_up_with_its_processes(yard: Yard) -> None:
    async with yard.loop():
        machine_id = await yard.want()
        await yard.is_(machine_id, "ready")
        await yard.online(machine_id)
        folder = yard.folder / machine_id
        folder.rename(yard.folder / "elsewhere")
        row = await yard.is_(machine_id, "destroyed")
        assert row["reason"] == "it is not there any more"
        (yard.folder / "elsewhere").rename(folder)  # it comes back, and nobody wants it

        async def gone() -> bool:
            return yard.left() == ([], set())

        await yard.until(gone)


async def test_a_daemon_that_dies_is_started_again_and_one_whose_keeper_dies_is_over(
    yard: Yard,
) -> None:
    async with yard.loop():
        machine_id = await yard.want()
        await yard.is_(machine_id, "ready")
        await yard.online(machine_id)
        folder = yard.folder / machine_id
        pid = int((folder / "daemon" / "daemon.lock").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

        async def another() -> bool:
            text = (folder / "daemon" / "daemon.lock").read_text().split()
            return bool(text) and int(text[0]) != pid

        await yard.until(another)
        await yard.online(machine_id)
        keeper = keeper_of(folder)
        assert keeper is not None
        os.kill(keeper, signal.SIGKILL)
        row = await yard.is_(machine_id, "destroyed")
    assert row["reason"] == "its daemon has ended"
    assert yard.left() == ([], set())


async def test_killed_whole_with_a_command_in_it_nothing_is_left(yard: Yard) -> None:
    """Keeper and daemon are killed at once, so nobody is there to end the command in order."""
    async with yard.loop():
        machine_id = await yard.want()
        await yard.is_(machine_id, "ready")
        view = await yard.online(machine_id)
        script = "echo begun; exec sleep 600"
        seen, task = await yard.lab.start(yard.replica, view.name, "/bin/sh", "-c", script)
        await yard.lab.sees(lambda: seen.bytes_of() == b"begun\n")
        folder = yard.folder / machine_id
        daemon = int((folder / "daemon" / "daemon.lock").read_text().split()[0])
        for pid in (keeper_of(folder), daemon):
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        await yard.is_(machine_id, "destroyed")
        await task
    assert yard.left() == ([], set())


async def test_limits_are_said_before_anything_is_made(yard: Yard) -> None:
    offer = replace(OFFER, limits=Limits(per_member=1))
    first = await yard.want(offer=offer)
    with pytest.raises(Conflict, match=r"you have 1 \(env-.*\), the limit is 1; close a ticket"):
        await yard.want(offer=offer)
    wishes = [yard.want(offer=offer) for _ in range(3)]
    assert all(
        isinstance(refused, Conflict)
        for refused in await asyncio.gather(*wishes, return_exceptions=True)
    )
    await yard.destroy(first)
    async with yard.loop(offer=offer):
        await yard.is_(first, "destroyed")
        await yard.is_(await yard.want(offer=offer), "ready")


async def test_of_wishes_that_come_together_only_as_many_as_fit_are_granted(yard: Yard) -> None:
    offer = replace(OFFER, limits=Limits(per_member=2))
    wishes = [yard.want(offer=offer) for _ in range(6)]
    made = await asyncio.gather(*wishes, return_exceptions=True)
    assert sum(isinstance(one, str) for one in made) == 2, made


async def test_a_lifetime_that_is_over_ends_it(yard: Yard) -> None:
    async with yard.loop():
        machine_id = await yard.want(offer=replace(OFFER, limits=Limits(lifetime_s=3600)))
        await yard.is_(machine_id, "ready")
        await yard.lab.sql("update environments set expires_at = farhand_now()")
        row = await yard.is_(machine_id, "destroyed")
    assert row["reason"] == "its lifetime is over"


async def test_revoking_its_machine_ends_it(yard: Yard) -> None:
    async with yard.loop():
        machine_id = await yard.want()
        await yard.is_(machine_id, "ready")
        async with yard.database.transaction() as tx:
            owner = yard.instance.owner_member_id
            await machines.revoke(tx, yard.instance.instance_id, machine_id, member_id=owner)
        row = await yard.is_(machine_id, "destroyed")
    assert row["reason"] == "its machine was revoked"


class Failing(LocalProcess):
    """A provisioner that cannot make anything."""

    error: Exception = Unavailable("cannot make it: the cloud is full")
    calls = 0

    async def create(self, request: object) -> None:
        type(self).calls += 1
        raise self.error


async def test_one_that_cannot_be_made_is_tried_again_then_given_up_and_said(yard: Yard) -> None:
    class Full(Failing):
        pass

    machine_id = await yard.want()
    async with yard.loop(Full(yard.site)):

        async def tried() -> bool:
            # The waits between tries are long for a test.
            await yard.lab.sql("update environments set retry_at = null")
            return bool((await yard.row(machine_id))["state"] == "destroyed")

        await yard.until(tried)
    assert Full.calls == 3
    reason = (await yard.row(machine_id))["reason"]
    assert reason == "it could not be made: cannot make it: the cloud is full"


@pytest.mark.parametrize("fault", ["breaks", "hangs"])
async def test_a_list_that_cannot_be_had_holds_up_and_breaks_off_nothing(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(provisioning_loop, "LIST_WITHIN_S", 0.2)
    entered, listed, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Listless(LocalProcess):
        async def list_all(self) -> Sequence[Found]:
            if entered.is_set():
                listed.set()
            if fault == "breaks":
                raise PermissionError(13, "Permission denied")
            await asyncio.Event().wait()
            return []

        async def create(self, request: Request) -> None:
            entered.set()
            await go_on.wait()

    first = await yard.want()
    async with yard.loop(Listless(yard.site)), asyncio.timeout(20):
        await listed.wait()
        other = await yard.want()
        await yard.destroy(other)
        await yard.is_(other, "destroyed")
        go_on.set()
        await yard.is_(first, "ready")
    await yard.lab.sql("delete from environments")


async def test_what_no_try_can_mend_is_tried_once(yard: Yard) -> None:
    class Wrong(Failing):
        error = InvalidInput("cannot make it: no image is named")

    machine_id = await yard.want()
    async with yard.loop(Wrong(yard.site)):
        await yard.is_(machine_id, "destroyed")
    assert Wrong.calls == 1


async def test_one_that_is_not_wanted_any_more_is_broken_off(yard: Yard) -> None:
    entered = asyncio.Event()

    class Slow(LocalProcess):
        async def create(self, request: object) -> None:
            entered.set()
            await asyncio.Event().wait()

    machine_id = await yard.want()
    async with yard.loop(Slow(yard.site)):
        await entered.wait()
        await yard.destroy(machine_id)
        await yard.is_(machine_id, "destroyed")


async def test_a_code_for_an_environment_lets_in_no_other_machine(yard: Yard) -> None:
    """What is enrolled with it is that machine, once it is confirmed nothing more."""
    machine_id = await yard.want()
    async with yard.loop():
        await yard.is_(machine_id, "ready")
    rows = await yard.lab.sql("select machine_id, for_machine_id from enrolment_codes")
    assert [(row["machine_id"], row["for_machine_id"]) for row in rows] == [
        (machine_id, machine_id)
    ]
    assert len(await yard.lab.sql("select 1 from machines")) == 1


async def test_an_instance_that_is_stopped_destroys_what_it_has_here(yard: Yard) -> None:
    async with yard.loop() as loop:
        machine_id = await yard.want()
        await yard.is_(machine_id, "ready")
        assert await loop.destroy_here(20.0)
        assert (await yard.row(machine_id))["reason"] == "Farhand was stopped"
    assert yard.left() == ([], set())


async def test_another_instances_environments_are_not_seen(yard: Yard) -> None:
    machine_id = await yard.want()
    async with yard.loop():
        await yard.is_(machine_id, "ready")
    other = LocalProcess(replace(yard.site, instance_id=new_id()))
    assert list(await other.list_all()) == []
