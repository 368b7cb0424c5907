"""How a computer becomes a machine, over the real listener."""

import asyncio
import time

import grpc
import pytest

from farhand_control_plane.db import enrolment, environments, machines
from farhand_control_plane.domain.environments import Offer
from farhand_control_plane.domain.words import MachineKind
from farhand_control_plane.machines.ca import open_authority
from farhand_proto.v1 import enroll_pb2
from farhand_shared import pki
from farhand_shared.enrolment_code import format_code, new_code
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, NotFound
from farhand_shared.ids import MachineId, MemberId, new_id
from tests.fakes.fake_daemon import FakeDaemon, FakeMachine, call_enrol, enrol


def address(replica):
    return f"127.0.0.1:{replica.enrol_port}"


async def refused(machine, replica, code):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await enrol(machine, address(replica), code)
    return caught.value


async def test_a_code_makes_a_pending_machine_whose_words_both_sides_show(lab):
    replica = await lab.replica()
    made = await lab.code("laptop")
    machine = FakeMachine(replica.root_pem)
    answer = await enrol(machine, address(replica), made.text, name_hint="ignored")
    assert (answer.machine_name, answer.active) == ("laptop", False)
    assert tuple(answer.words) == machine.words
    async with lab.database.transaction() as tx:
        code = await enrolment.code(tx, lab.instance.instance_id, made.code_id)
        view = await machines.get(tx, lab.instance.instance_id, MachineId(answer.machine_id))
    assert code.machine_id == answer.machine_id
    assert code.words == machine.words == view.words
    assert (view.status, view.presence) == ("pending", "offline")
    assert view.owner_member_id == lab.instance.owner_member_id
    identity = pki.identity_of(answer.certificate)
    assert identity.machine_id == answer.machine_id


async def test_the_code_is_stored_as_a_hash_only(lab):
    await lab.replica()
    made = await lab.code()
    rows = await lab.sql("select * from enrolment_codes")
    assert made.text not in repr(rows)


async def test_a_wrong_code_is_refused(lab):
    replica = await lab.replica()
    machine = FakeMachine(replica.root_pem)
    root = pki.spki_sha256(pki.spki_of_certificate(replica.root_pem))
    error = await refused(machine, replica, format_code(new_code(root)))
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert error.details() == "cannot enrol: the code is wrong; type it again or make a new one"


async def test_a_used_code_is_refused_to_another_key(lab):
    replica = await lab.replica()
    made = await lab.code()
    await enrol(FakeMachine(replica.root_pem), address(replica), made.text)
    error = await refused(FakeMachine(replica.root_pem), replica, made.text)
    assert "was used already" in error.details()
    assert len(await lab.sql("select 1 from machines")) == 1


async def test_the_same_key_gets_the_same_certificate_again_for_ten_minutes(lab):
    replica = await lab.replica()
    made = await lab.code()
    machine = FakeMachine(replica.root_pem)
    first = await enrol(machine, address(replica), made.text)
    again = await enrol(machine, address(replica), made.text)
    assert again.certificate == first.certificate
    assert again.machine_id == first.machine_id
    await lab.sql("update schema_record set clock_shift_ms = 601000")
    error = await refused(machine, replica, made.text)
    assert "was used already" in error.details()


async def test_an_expired_code_is_refused(lab):
    replica = await lab.replica()
    made = await lab.code()
    await lab.sql("update schema_record set clock_shift_ms = 601000")
    error = await refused(FakeMachine(replica.root_pem), replica, made.text)
    assert "expired after 10 minutes" in error.details()


async def test_of_many_who_redeem_at_once_one_gets_in(lab):
    replica, other = await lab.replica(), await lab.replica()
    made = await lab.code()
    tries = [
        enrol(FakeMachine(replica.root_pem), address(where), made.text)
        for where in (replica, other) * 2
    ]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(result, enroll_pb2.RedeemResponse) for result in results) == 1
    assert len(await lab.sql("select 1 from machines")) == 1


async def test_the_sixth_wrong_code_in_a_minute_is_not_looked_at(lab):
    replica = await lab.replica()
    root = pki.spki_sha256(pki.spki_of_certificate(replica.root_pem))
    machine = FakeMachine(replica.root_pem)
    for _ in range(5):
        await refused(machine, replica, format_code(new_code(root)))
    made = await lab.code()
    error = await refused(machine, replica, made.text)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "wait a minute" in error.details()


async def test_names_are_made_unique_and_fit_for_a_command_line(lab):
    replica = await lab.replica()
    names = []
    for hint in ("Dev Box.local", "dev-box", "\N{SNOWMAN}"):
        made = await lab.code()
        answer = await enrol(
            FakeMachine(replica.root_pem), address(replica), made.text, name_hint=hint
        )
        names.append(answer.machine_name)
    assert names == ["dev-box", "dev-box-2", "machine"]


async def test_only_the_maker_of_the_code_confirms_and_only_with_the_right_words(lab):
    replica = await lab.replica()
    made = await lab.code()
    machine = FakeMachine(replica.root_pem)
    await enrol(machine, address(replica), made.text)
    owner, instance_id = lab.instance.owner_member_id, lab.instance.instance_id
    machine_id = MachineId(machine.machine_id)

    async def confirm(member, words, wanted=machine_id, instance=instance_id):
        async with lab.database.transaction() as tx:
            await enrolment.confirm(tx, instance, member, wanted, words)

    with pytest.raises(NotAllowed, match="only the maker"):
        await confirm(MemberId(new_id()), machine.words)
    with pytest.raises(InvalidInput, match="six words differ"):
        await confirm(owner, machine.words[::-1])
    with pytest.raises(NotFound):
        await confirm(owner, machine.words, MachineId(new_id()))
    with pytest.raises(NotFound):  # another instance's id looks absent
        await confirm(owner, machine.words, machine_id, new_id())
    await confirm(owner, machine.words)
    await confirm(owner, machine.words)
    async with lab.database.transaction() as tx:
        await machines.revoke(tx, instance_id, machine_id, member_id=owner)
    with pytest.raises(Conflict, match="it is revoked"):
        await confirm(owner, machine.words)


async def test_status_follows_the_confirmation_and_needs_the_key(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    certificate = pki.certificate_der(machine.certificate_pem)

    async def status(key):
        now = time.time_ns() // 1_000_000
        request = enroll_pb2.StatusRequest(
            certificate=certificate,
            signed_at_ms=now,
            signature=pki.sign_status(key, machine.machine_id, now),
        )
        return await call_enrol(replica.root_pem, address(replica), "Status", request)

    answer = await status(machine.key_pem)
    assert (answer.status, answer.machine_name) == ("active", "fake")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await status(pki.new_private_key())
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def renew(replica, machine, old_key, new_key):
    now = time.time_ns() // 1_000_000
    csr = pki.create_csr(new_key)
    request = enroll_pb2.RenewRequest(
        certificate=pki.certificate_der(machine.certificate_pem),
        csr=csr,
        signed_at_ms=now,
        signature=pki.sign_renew(old_key, csr, now),
    )
    answer = await call_enrol(replica.root_pem, address(replica), "Renew", request)
    return answer.certificate


async def test_a_renewed_certificate_opens_the_link_and_a_revoked_machine_gets_none(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    new_key = pki.new_private_key()
    with pytest.raises(grpc.aio.AioRpcError):
        await renew(replica, machine, pki.new_private_key(), new_key)
    certificate = await renew(replica, machine, machine.key_pem, new_key)
    old_key, machine.key_pem = machine.key_pem, new_key
    old_certificate = machine.certificate_pem
    machine.certificate_pem = pki.certificate_pem(certificate)
    async with FakeDaemon(machine):
        assert (await lab.exec(replica, "fake", "echo", "renewed")).bytes_of() == b"renewed\n"
    async with lab.database.transaction() as tx:
        await machines.revoke(
            tx,
            lab.instance.instance_id,
            MachineId(machine.machine_id),
            member_id=lab.instance.owner_member_id,
        )
    machine.certificate_pem = old_certificate
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await renew(replica, machine, old_key, pki.new_private_key())
    assert "is revoked" in caught.value.details()


async def test_replicas_share_one_root_and_another_instance_key_does_not_open_it(lab):
    first, second = await asyncio.gather(lab.replica(), lab.replica())
    assert first.root_pem == second.root_pem
    rows = await lab.sql("select wrapped_private_key from ca_keys")
    assert len(rows) == 1
    assert b"PRIVATE" not in bytes(rows[0]["wrapped_private_key"])
    with pytest.raises(InvalidInput, match="instance key is not the one"):
        await open_authority(lab.database, lab.instance.instance_id, bytes(32))
    with pytest.raises(InvalidInput, match="31 bytes"):
        await open_authority(lab.database, lab.instance.instance_id, bytes(31))


async def wanted_environment(lab):
    """Store a machine that is to come, and return its id and a code that lets it in."""
    async with lab.database.transaction() as tx:
        machine_id = await environments.want(
            tx, lab.instance.instance_id, lab.instance.owner_member_id, Offer(provisioner="p")
        )
    return machine_id


async def code_for(lab, machine_id):
    async with lab.database.transaction() as tx:
        return await enrolment.make_code(
            tx,
            lab.instance.instance_id,
            lab.instance.owner_member_id,
            kind=MachineKind.ON_DEMAND,
            for_machine_id=machine_id,
        )


async def test_a_code_may_let_in_one_machine_that_is_stored_and_no_other(lab):
    replica = await lab.replica()
    machine_id = await wanted_environment(lab)
    first, second = FakeMachine(replica.root_pem), FakeMachine(replica.root_pem)
    answer = await enrol(first, address(replica), (await code_for(lab, machine_id)).text)
    assert answer.machine_id == machine_id
    # A try that was broken off is begun anew: its key is good for nothing any more.
    again = await enrol(second, address(replica), (await code_for(lab, machine_id)).text)
    assert again.machine_id == machine_id
    certificates = await lab.sql("select revoked_at from certificates order by issued_at")
    assert [row["revoked_at"] is not None for row in certificates] == [True, False]
    async with lab.database.transaction() as tx:
        view = await machines.get(tx, lab.instance.instance_id, machine_id)
        assert (view.status, view.kind, view.words) == ("pending", "on_demand", second.words)
        await enrolment.confirm(
            tx,
            lab.instance.instance_id,
            lab.instance.owner_member_id,
            machine_id,
            second.words,
        )
    late = await code_for(lab, machine_id)
    error = await refused(FakeMachine(replica.root_pem), replica, late.text)
    assert "waits for nobody any more" in error.details()
    assert len(await lab.sql("select 1 from machines")) == 1


async def test_a_codes_kind_is_its_machines(lab):
    replica = await lab.replica()
    async with lab.database.transaction() as tx:
        made = await enrolment.make_code(
            tx,
            lab.instance.instance_id,
            lab.instance.owner_member_id,
            kind=MachineKind.MANAGED,
        )
    answer = await enrol(FakeMachine(replica.root_pem), address(replica), made.text)
    async with lab.database.transaction() as tx:
        view = await machines.get(tx, lab.instance.instance_id, MachineId(answer.machine_id))
    assert view.kind == "managed"
