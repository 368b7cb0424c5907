"""What pages are told about machines, so that none of them has to ask again and again."""

import asyncio

import pytest

from farhand_control_plane.db import links, machines
from farhand_control_plane.db.links import HeldLink
from farhand_control_plane.machines import sweeper
from farhand_control_plane.machines.admission import Admission
from farhand_control_plane.machines.link_service import LinkService
from farhand_control_plane.machines.presence import Presence
from farhand_shared.ids import MachineId
from tests.fakes.fake_daemon import FakeDaemon


async def told(lab):
    """Return what was told about machines, oldest first, by kind; all of it names the machine."""
    rows = await lab.sql("select * from events where kind like 'machine_%%' order by seq")
    assert all(row["payload"]["machine"] and row["subject_id"] for row in rows)
    return [row["kind"].removeprefix("machine_") for row in rows]


def hears(lab, *kinds):
    """Wait for exactly this story."""

    async def look():
        return await told(lab) == list(kinds)

    return lab.until(look)


def held_by(replica, machine) -> HeldLink:
    return replica.hub.link(MachineId(machine.machine_id)).held


async def shift_clock(lab, seconds):
    await lab.sql("update schema_record set clock_shift_ms = %s", seconds * 1000)


def sweep(lab):
    return sweeper.sweep(lab.database)


async def test_a_machines_life_is_told_from_enrolment_to_revocation(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    (row,) = await lab.sql("select * from events where kind = 'machine_enrolled'")
    assert row["subject_id"] == machine.machine_id
    assert row["payload"] == {"machine": "fake", "words": list(machine.words)}
    async with lab.daemon(machine, replica):
        assert await told(lab) == ["enrolled", "confirmed", "online"]
        async with lab.database.transaction() as tx:
            await machines.revoke(
                tx,
                lab.instance.instance_id,
                MachineId(machine.machine_id),
                member_id=lab.instance.owner_member_id,
            )
        await hears(lab, "enrolled", "confirmed", "online", "revoked", "offline")


async def test_confirming_again_tells_nothing_again(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    await lab.confirm(machine)
    assert await told(lab) == ["enrolled", "confirmed"]


async def test_a_recycled_stream_tells_nothing(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with FakeDaemon(machine) as old:
        newer = FakeDaemon(machine)
        newer.daemon_instance_id = old.daemon_instance_id
        async with newer:
            async with asyncio.timeout(5):
                await old.ended.wait()
            await lab.idle(replica, machine)
            assert await told(lab) == ["enrolled", "confirmed", "online"]
    await hears(lab, "enrolled", "confirmed", "online", "offline")


async def test_a_machine_whose_replica_was_killed_is_told_offline_once(lab, monkeypatch):
    replica = await lab.replica(expire_s=3600.0)  # who sweeps here is the test
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        # A killed replica says nothing: neither does this one from now on.
        monkeypatch.setattr(Presence, "_renew_now", _say_nothing)
        monkeypatch.setattr(Presence, "release", _say_nothing)
    await sweep(lab)
    assert await told(lab) == ["enrolled", "confirmed", "online"]
    await shift_clock(lab, 46)
    await asyncio.gather(*(sweep(lab) for _ in range(5)))
    assert await told(lab) == ["enrolled", "confirmed", "online", "offline"]
    await shift_clock(lab, 4000)
    await sweep(lab)
    assert await told(lab) == ["enrolled", "confirmed", "online", "offline"]
    monkeypatch.undo()
    async with lab.daemon(machine, await lab.replica()):
        assert await told(lab) == ["enrolled", "confirmed", "online", "offline", "online"]


async def _say_nothing(*_arguments):
    return None


async def test_an_expired_link_that_ends_after_all_is_not_told_twice(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        held = held_by(replica, machine)
        await shift_clock(lab, 46)
        await asyncio.gather(sweep(lab), _release(lab, held), sweep(lab))
        await _release(lab, held)
    assert await told(lab) == ["enrolled", "confirmed", "online", "offline"]


async def probe(lab, machine):
    async with lab.database.autocommit() as connection:
        await links.ask_to_probe(connection, MachineId(machine.machine_id))


async def _release(lab, held):
    async with lab.database.transaction() as tx:
        await links.release(tx, held)


async def test_a_link_that_is_alive_after_all_is_told_online_again(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        await shift_clock(lab, 46)
        await sweep(lab)
        assert await told(lab) == ["enrolled", "confirmed", "online", "offline"]
        await shift_clock(lab, 0)
        link = replica.hub.link(MachineId(machine.machine_id))
        await probe(lab, machine)  # the holder has it pinged, and renews when it answers
        await hears(lab, "enrolled", "confirmed", "online", "offline", "online")
        await probe(lab, machine)
        async with lab.database.transaction() as tx:
            view = await machines.get(tx, lab.instance.instance_id, link.held.machine_id)
        assert view.presence == "online"
    assert (await told(lab)).count("online") == 2


@pytest.mark.parametrize("where", ["admitted", "released"])
async def test_a_stream_cancelled_in_the_middle_of_a_statement_leaves_nobody_online(
    lab, monkeypatch, where
):
    """gRPC cancels the handler of a client that is gone, wherever it is at that moment."""
    reached, go_on, handler_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    connect, admit, release = LinkService._connect, Admission.admit, links.release

    handlers = []

    async def noting_its_end(*arguments):
        handlers.append(asyncio.current_task())
        try:
            await connect(*arguments)
        finally:
            handler_ended.set()

    async def held_up(work, *, after):
        done = await work if after else None
        reached.set()
        await go_on.wait()
        return done if after else await work

    monkeypatch.setattr(LinkService, "_connect", noting_its_end)
    if where == "admitted":
        monkeypatch.setattr(Admission, "admit", lambda *a: held_up(admit(*a), after=True))
    else:
        monkeypatch.setattr(
            links, "release", lambda *a, **more: held_up(release(*a, **more), after=False)
        )
    replica = await lab.replica()
    machine = await lab.machine(replica)
    daemon = FakeDaemon(machine)
    await daemon.connect(welcome=where == "released")
    async with asyncio.timeout(20):
        if where == "admitted":
            await reached.wait()
        await daemon.stop()
        await reached.wait()
        handlers[0].cancel()  # as gRPC does, though not each time
        await handler_ended.wait()
    go_on.set()
    await hears(lab, "enrolled", "confirmed", "online", "offline")


async def seen_s_ago(lab, machine):
    (row,) = await lab.sql(
        "select extract(epoch from farhand_now() - seen_at)::float as ago from machines "
        f"where machine_id = '{machine.machine_id}'"
    )
    return row["ago"]


async def test_a_machine_that_goes_was_last_seen_when_it_was_last_heard(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        held = held_by(replica, machine)
        # Leases are renewed now and then: what is stored is older than the machine's last word.
        await lab.sql("update machines set seen_at = seen_at - interval '1 hour'")
    await hears(lab, "enrolled", "confirmed", "online", "offline")
    assert await seen_s_ago(lab, machine) < 30
    await lab.sql("update machines set seen_at = seen_at - interval '1 hour'")
    async with lab.database.transaction() as tx:
        await links.release(tx, held, heard_s_ago=600)
    assert 600 <= await seen_s_ago(lab, machine) < 630, "not when its end was noticed"
    async with lab.database.transaction() as tx:
        await links.release(tx, held, heard_s_ago=900)
    assert await seen_s_ago(lab, machine) < 630, "a later word is not forgotten"
