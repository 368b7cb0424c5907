"""Streams: epochs, revocation, clones, presence, drain."""

import asyncio
import time
from datetime import UTC, datetime

import grpc
import pytest

from farhand_control_plane.db import machines
from farhand_control_plane.machines.service import MachineSettings
from farhand_shared import pki
from farhand_shared.errors import Unavailable
from farhand_shared.ids import MachineId
from farhand_shared.link_events import Output, Stream
from tests.fakes.fake_daemon import FakeDaemon, FakeMachine, hold


async def presence(lab, machine):
    async with lab.database.transaction() as tx:
        view = await machines.get(tx, lab.instance.instance_id, MachineId(machine.machine_id))
    return view


async def revoke(lab, machine):
    async with lab.database.transaction() as tx:
        return await machines.revoke(
            tx,
            lab.instance.instance_id,
            MachineId(machine.machine_id),
            member_id=lab.instance.owner_member_id,
        )


async def is_offline(lab, machine):
    return (await presence(lab, machine)).presence == "offline"


async def test_a_linked_machine_is_online_with_its_facts_and_offline_after(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):
        view = await presence(lab, machine)
        assert (view.presence, view.status, view.trust_level) == ("online", "active", "trusted")
        assert view.facts["hostname"] == "fake"
        assert view.facts["home"].encode("utf-8", "surrogateescape") == b"/home/\xff"
    await lab.until(lambda: is_offline(lab, machine))


async def test_a_machine_unheard_for_45_seconds_is_shown_offline(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica):

        async def later():  # again when it was heard just then: its first pings are about now
            await lab.sql("update schema_record set clock_shift_ms = clock_shift_ms + 46000")
            return await is_offline(lab, machine)

        await lab.until(later)


async def test_each_stream_has_a_higher_epoch_and_the_older_one_is_told(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with FakeDaemon(machine) as old:
        newer = FakeDaemon(machine)
        newer.daemon_instance_id = old.daemon_instance_id
        async with newer:
            async with asyncio.timeout(5):
                await old.ended.wait()
            assert [bye.code for bye in old.byes] == ["superseded"]
            assert newer.epochs[0] == old.epochs[0] + 1
            await lab.idle(replica, machine)
            assert (await lab.exec(replica, "fake", "echo", "x")).bytes_of() == b"x\n"
            # The older one's clean-up has not touched the newer one's row.
            rows = await lab.sql("select epoch, replica_id from machine_connections")
            assert rows[0]["epoch"] == newer.epochs[0]
            assert rows[0]["replica_id"] is not None


async def test_a_newer_stream_on_another_replica_closes_the_older_one(lab):
    first, second = await lab.replica(), await lab.replica()
    machine = await lab.machine(first)
    async with lab.daemon(machine, first) as old:
        newer = FakeDaemon(machine, f"127.0.0.1:{second.link_port}")
        newer.daemon_instance_id = old.daemon_instance_id
        async with newer:
            async with asyncio.timeout(5):
                await old.ended.wait()
            assert [bye.code for bye in old.byes] == ["superseded"]
            await lab.sees(lambda: not first.hub.held())
            rows = await lab.sql("select epoch, replica_id from machine_connections")
            assert rows[0]["epoch"] == newer.epochs[0]
            assert rows[0]["replica_id"] is not None


async def test_a_write_under_an_old_epoch_changes_nothing(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        seen, task = await lab.start(replica, "fake", "x")
        await lab.sees(lambda: machine.starts)
        # Another replica takes the epoch while this one does not know yet.
        await lab.sql("update machine_connections set epoch = epoch + 1")
        (job,) = machine.jobs.values()
        job.write(b"too late")
        job.end()
        async with asyncio.timeout(10):
            await daemon.ended.wait()
        assert not job.receipted
        assert (await lab.view(seen.command_id)).result is None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_revocation_closes_the_stream_within_two_seconds_and_ends_its_work(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    machine.concurrency = 1
    async with lab.daemon(machine, replica) as daemon:
        seen, task = await lab.start(replica, "fake", "running")
        await lab.sees(lambda: machine.starts)
        queued = await lab.enqueue(machine, "queued")
        begun = time.monotonic()
        assert await revoke(lab, machine)
        async with asyncio.timeout(2):
            await daemon.ended.wait()
        assert time.monotonic() - begun < 2
        assert [bye.code for bye in daemon.byes] == ["revoked"]
        assert not daemon.byes[0].retry
        (job,) = machine.jobs.values()
        assert job.cancel_reason == "revoked"
        view = await lab.view(seen.command_id)
        assert (view.state, view.reason) == ("lost", "revoked")
        assert (await lab.view(queued.command_id)).state == "cancelled_before_start"
        await asyncio.wait_for(task, 10)  # the client is told
        again = FakeDaemon(machine)
        await again.connect(welcome=False)
        await asyncio.wait_for(again.ended.wait(), 10)
        assert [bye.code for bye in again.byes] == ["revoked"]
        await again.stop()
    assert not await revoke(lab, machine)


async def test_the_result_of_a_revoked_machine_is_refused(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        seen, task = await lab.start(replica, "fake", "running")
        await lab.sees(lambda: machine.starts)
        # The attempt is final before the stream is closed: as if the notification were slow.
        await lab.sql(
            "update attempts set state = 'lost', reason = 'revoked', ended_at = farhand_now()"
        )
        (job,) = machine.jobs.values()
        job.end()
        await lab.sees(lambda: daemon.conflicts == [job.attempt_id])
        await asyncio.wait_for(task, 10)
    view = await lab.view(seen.command_id)
    assert (view.state, view.reason, view.result) == ("lost", "revoked", None)


async def test_a_pending_machine_is_sent_away_until_it_is_confirmed(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    await lab.sql("update machines set status = 'pending'")
    daemon = FakeDaemon(machine)
    await daemon.connect(welcome=False)
    await asyncio.wait_for(daemon.ended.wait(), 10)
    assert [(bye.code, bye.retry) for bye in daemon.byes] == [("pending", True)]
    await daemon.stop()


async def test_a_second_living_daemon_with_the_certificate_quarantines_both(lab):
    replica = await lab.replica(rival_wait_s=5.0)
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica) as original:
        clone = FakeDaemon(machine)
        await clone.connect(welcome=False)
        await asyncio.wait_for(clone.ended.wait(), 15)
        await asyncio.wait_for(original.ended.wait(), 15)
        assert [bye.code for bye in clone.byes] == ["quarantined"]
        assert [bye.code for bye in original.byes] == ["quarantined"]
        await clone.stop()
    assert (await presence(lab, machine)).status == "quarantined"


async def test_a_clone_is_noticed_across_replicas(lab):
    first, second = await lab.replica(), await lab.replica(rival_wait_s=5.0)
    machine = await lab.machine(first)
    async with lab.daemon(machine, first) as original:
        clone = FakeDaemon(machine, f"127.0.0.1:{second.link_port}")
        await clone.connect(welcome=False)
        await asyncio.wait_for(clone.ended.wait(), 15)
        await asyncio.wait_for(original.ended.wait(), 15)
        assert [bye.code for bye in clone.byes] == ["quarantined"]
        assert [bye.code for bye in original.byes] == ["quarantined"]
        await clone.stop()


async def test_a_restarted_daemon_takes_over_from_a_silent_one(lab):
    replica = await lab.replica(rival_wait_s=0.5)
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica) as silent:
        silent.deaf = True
        async with FakeDaemon(machine) as restarted:
            assert restarted.epochs[0] > silent.epochs[0]
            assert (await presence(lab, machine)).status == "active"


async def test_a_killed_replica_does_not_delay_a_restarted_daemon(lab):
    first = await lab.replica(rival_wait_s=30.0)
    machine = await lab.machine(first)
    await lab.sql(
        """
        insert into machine_connections (instance_id, machine_id, replica_id, epoch,
                                         daemon_instance_id, lease_until)
        values (%s, %s, gen_random_uuid(), 7, 'older', farhand_now() + interval '80 seconds')
        """,
        lab.instance.instance_id,
        machine.machine_id,
    )
    begun = time.monotonic()
    async with FakeDaemon(machine) as daemon:
        assert daemon.epochs == [8]
    assert time.monotonic() - begun < 10


async def test_drain_asks_the_machines_to_leave(lab):
    first, second = await lab.replica(), await lab.replica()
    machine = await lab.machine(first)
    async with lab.daemon(machine, first) as daemon:
        draining = asyncio.create_task(first.drain(within_s=20.0))
        await lab.sees(lambda: daemon.drains == [20.0])
        newer = FakeDaemon(machine, f"127.0.0.1:{second.link_port}")
        newer.daemon_instance_id = daemon.daemon_instance_id
        async with newer:
            await asyncio.wait_for(draining, 10)
            assert not first.hub.held()


async def test_a_draining_replica_takes_no_stream_and_says_goodbye_to_who_stays(lab):
    replica = await lab.replica()
    machine, other = await lab.machine(replica), await lab.machine(replica, "other")
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        seen, task = await lab.start(replica, "fake", "x")
        await lab.sees(lambda: machine.starts)
        draining = asyncio.create_task(replica.drain(within_s=1.0))
        await lab.sees(lambda: daemon.drains)
        late = FakeDaemon(other)
        await late.connect(welcome=False)
        await asyncio.wait_for(late.ended.wait(), 10)
        assert late.epochs == [], "it would have to leave again"
        await late.stop()
        await asyncio.wait_for(draining, 10)
        await asyncio.wait_for(daemon.ended.wait(), 10)
        assert [(bye.code, bye.retry) for bye in daemon.byes] == [("going_away", True)]
        await lab.until(lambda: is_offline(lab, machine))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (await lab.view(seen.command_id)).state == "started", "what runs goes on"


@pytest.mark.parametrize("end", ["close", "drain"])
async def test_a_replica_without_another_one_says_goodbye_at_once(lab, end):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    async with lab.daemon(machine, replica) as daemon:
        await (replica.close() if end == "close" else replica.drain(within_s=0))
        await asyncio.wait_for(daemon.ended.wait(), 10)
        assert [bye.code for bye in daemon.byes] == ["going_away"]
        assert daemon.drains == [], "there is nowhere to go"


async def test_a_machine_that_breaks_the_protocol_is_told_and_may_come_back(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.behaviour = hold
    async with lab.daemon(machine, replica) as daemon:
        seen, task = await lab.start(replica, "fake", "x")
        await lab.sees(lambda: machine.starts)
        gap = Output(attempt_id=machine.starts[0], stream=Stream.STDOUT, offset=1000, data=b"gap")
        await daemon.send([gap])
        await asyncio.wait_for(daemon.ended.wait(), 10)
        assert [(bye.code, bye.retry) for bye in daemon.byes] == [("protocol", True)]
        await daemon.cut()
        await daemon.connect()
        (job,) = machine.jobs.values()
        job.end()
        await asyncio.wait_for(task, 20)
    assert (await lab.view(seen.command_id)).state == "exited"


async def test_without_a_machines_certificate_there_is_no_link(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    stranger = FakeMachine(replica.root_pem)
    root = pki.create_root("other", now=datetime.now(UTC))
    identity = pki.MachineIdentity(
        instance_id=lab.instance.instance_id, machine_id=machine.machine_id
    )
    certificate = pki.issue_machine_certificate(
        root,
        pki.create_csr(stranger.key_pem),
        identity,
        now=datetime.now(UTC),
    )
    stranger.certificate_pem = pki.certificate_pem(certificate)
    stranger.link_address = machine.link_address
    daemon = FakeDaemon(stranger)
    with pytest.raises((AssertionError, grpc.aio.AioRpcError)):
        await daemon.connect()
    await daemon.stop()
    assert not replica.hub.held()


async def test_a_taken_port_is_named(lab):
    replica = await lab.replica()
    with pytest.raises(Unavailable, match=f"127.0.0.1:{replica.link_port}"):
        await lab.replica(link_bind=f"127.0.0.1:{replica.link_port}")
    assert MachineSettings().link_bind.endswith(":0")
