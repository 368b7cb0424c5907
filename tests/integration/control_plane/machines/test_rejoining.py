"""The way back from quarantine: the first copy is the machine, whoever comes later another one."""

import time
from dataclasses import replace

import grpc
import pytest

from farhand_control_plane.db import enrolment
from farhand_proto.v1 import enroll_pb2
from farhand_shared import pki
from farhand_shared.enrolment_code import parse_code
from farhand_shared.ids import MemberId, new_id
from farhand_shared.version import CAPABILITY
from farhand_shared.words import six_words
from tests.fakes.fake_daemon import FakeDaemon, FakeMachine, call_enrol


async def rejoin(lab, replica, machine, *, code=None, signed_by=None):
    """Rejoin as a copy of ``machine`` does; return the machine that this made of it."""
    made = parse_code(code or (await lab.code()).text)
    back = FakeMachine(replica.root_pem)
    csr = pki.create_csr(back.key_pem)
    signed_at_ms = time.time_ns() // 1_000_000
    answer = await call_enrol(
        replica.root_pem,
        f"127.0.0.1:{replica.enrol_port}",
        "Redeem",
        enroll_pb2.RedeemRequest(
            code_secret=made.secret.reveal(),
            csr=csr,
            name_hint="copy",
            capability=CAPABILITY,
            daemon_version="fake",
            trust_level="trusted",
            chosen_by="typed",
            rejoin=enroll_pb2.Rejoin(
                certificate=pki.certificate_der(machine.certificate_pem),
                signed_at_ms=signed_at_ms,
                signature=pki.sign_rejoin(signed_by or machine.key_pem, csr, signed_at_ms),
            ),
        ),
    )
    root = pki.spki_sha256(pki.spki_of_certificate(replica.root_pem))
    words = six_words(pki.spki_of_key(back.key_pem), root, made.secret.reveal())
    assert tuple(answer.words) == words
    return replace(
        back,
        certificate_pem=pki.certificate_pem(answer.certificate),
        machine_id=answer.machine_id,
        name=answer.machine_name,
        words=words,
        link_address=answer.link_address,
        journal_id=machine.journal_id,
        journal_counter=machine.journal_counter,
    )


async def quarantined(lab, replica):
    machine = await lab.machine(replica, "laptop")
    await lab.sql("update machines set status = 'quarantined'")
    return machine


async def test_the_first_copy_is_the_machine_again_under_another_key(lab):
    replica = await lab.replica()
    machine = await quarantined(lab, replica)
    back = await rejoin(lab, replica, machine)
    assert (back.machine_id, back.name) == (machine.machine_id, "laptop")
    (row,) = await lab.sql("select status, words from machines")
    assert (row["status"], tuple(row["words"])) == ("pending", back.words)
    await lab.confirm(back)
    async with lab.daemon(back, replica):
        seen = await lab.exec(replica, "laptop", "echo", "hi")
        assert seen.bytes_of() == b"hi\n"
        # What the other copy holds opens nothing, and disturbs nobody.
        copy = FakeDaemon(machine)
        await copy.connect(welcome=False)
        await copy.ended.wait()
        assert [bye.code for bye in copy.byes] == ["revoked"]
        await copy.stop()
        assert (await lab.exec(replica, "laptop", "echo", "still")).bytes_of() == b"still\n"


async def test_a_later_copy_becomes_a_machine_of_its_own(lab):
    replica = await lab.replica()
    machine = await quarantined(lab, replica)
    back = await rejoin(lab, replica, machine)
    other = await rejoin(lab, replica, machine)
    assert other.machine_id != machine.machine_id == back.machine_id
    assert other.name == "copy"
    await lab.confirm(back)
    await lab.confirm(other)
    async with lab.daemon(back, replica), lab.daemon(other, replica):
        assert (await lab.exec(replica, "laptop", "echo", "1")).bytes_of() == b"1\n"
        assert (await lab.exec(replica, "copy", "echo", "2")).bytes_of() == b"2\n"


async def test_an_answer_that_was_lost_is_given_again(lab):
    replica = await lab.replica()
    machine = await quarantined(lab, replica)
    made = await lab.code()
    back = await rejoin(lab, replica, machine, code=made.text)
    with pytest.raises(grpc.aio.AioRpcError, match="used already"):  # by another key
        await rejoin(lab, replica, machine, code=made.text)
    assert (await lab.sql("select count(*) as n from machines"))[0]["n"] == 1
    assert back.machine_id == machine.machine_id


async def test_a_machine_that_nothing_locks_out_keeps_its_key(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica, "laptop")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await rejoin(lab, replica, machine)
    assert refused.value.details().startswith("cannot rejoin: laptop is active, nothing locks it")
    async with lab.daemon(machine, replica) as daemon:
        assert daemon.epochs == [1]


async def test_the_proof_must_be_of_the_machines_own_key(lab):
    replica = await lab.replica()
    machine = await quarantined(lab, replica)
    with pytest.raises(grpc.aio.AioRpcError, match="did not sign it"):
        await rejoin(lab, replica, machine, signed_by=pki.new_private_key())
    assert [row["status"] for row in await lab.sql("select status from machines")] == [
        "quarantined"
    ]


async def test_another_members_code_does_not_give_the_machine_away(lab):
    replica = await lab.replica()
    machine = await quarantined(lab, replica)
    stranger = MemberId(new_id())
    await lab.sql(
        "insert into members (instance_id, member_id, name, role) values (%s, %s, 'bob', 'member')",
        lab.instance.instance_id,
        stranger,
    )
    async with lab.database.transaction() as tx:
        made = await enrolment.make_code(tx, lab.instance.instance_id, stranger)
    other = await rejoin(lab, replica, machine, code=made.text)
    assert other.machine_id != machine.machine_id
    (row,) = await lab.sql("select status from machines where machine_id = %s", machine.machine_id)
    assert row["status"] == "quarantined"
