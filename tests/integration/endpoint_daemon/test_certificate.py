"""The certificate's end: renewed in time, after it, and what is said when it cannot be."""

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from farhand_daemon.identity import load_identity, store_identity
from farhand_daemon.paths import Home
from farhand_shared import pki
from tests.fakes.fake_control_plane import FakeControlPlane
from tests.integration.endpoint_daemon.conftest import Farhandd

REFUSAL = "cannot renew: this certificate is not known; enrol again"


def _age(plane: FakeControlPlane, farhandd: Farhandd, *, days_since_end: float) -> None:
    """Give the machine a true certificate that ended so long ago."""
    home = Home(farhandd.home)
    identity = load_identity(home)
    old = pki.issue_machine_certificate(
        plane.root,
        pki.create_csr(identity.key_pem.encode()),
        pki.MachineIdentity(instance_id=plane.instance_id, machine_id=identity.machine_id),
        now=datetime.now(UTC) - timedelta(days=7 + days_since_end),
    )
    store_identity(
        home,
        identity.with_certificate(
            key_pem=identity.key_pem.encode(), certificate_der=old, jitter=random.random()
        ),
    )


def _let_be_due(farhandd: Farhandd) -> None:
    """Let the certificate, which is good, be due for renewal at a hurried daemon's next look."""
    (farhandd.home / "renew-now").touch()


async def _status(farhandd: Farhandd) -> dict[str, Any]:
    return dict(json.loads((await farhandd.call("status", "--json")).stdout))


async def _certificate_check(farhandd: Farhandd) -> tuple[bool, str]:
    items = json.loads((await farhandd.call("doctor", "--json")).stdout)["items"]
    (item,) = [item for item in items if item["check"] == "certificate"]
    return item["ok"], f"{item['result']} → {item['next_step']}"


async def _renewal_failed(farhandd: Farhandd) -> None:
    log = farhandd.home / "daemon.log"
    async with asyncio.timeout(20):
        while not log.exists() or "renewal_failed" not in log.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # nothing announces it


def _streams(farhandd: Farhandd) -> int:
    """Return how many streams or tries to open one the daemon's log tells the end of."""
    return (farhandd.home / "daemon.log").read_text().count("stream_ended")


async def test_a_certificate_that_ended_is_renewed_before_dialling(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    _age(plane, farhandd, days_since_end=29)
    assert "it renews by itself" in (await _certificate_check(farhandd))[1]
    await farhandd.start("run")
    await plane.connected(machine_id)
    assert plane.renewals == 1
    assert _streams(farhandd) == 0
    assert (await _certificate_check(farhandd))[0]


@pytest.mark.parametrize(("days_off", "renewed"), [(30, True), (32, False)])
async def test_a_day_long_certificate_and_a_month_off(
    plane: FakeControlPlane,
    farhandd: Farhandd,
    monkeypatch: pytest.MonkeyPatch,
    days_off: int,
    renewed: bool,
) -> None:
    # https://github.com/openyurtio/openyurt/pull/122: everything expired while it was off, and the
    # machine cannot come back
    monkeypatch.setattr(pki, "CERTIFICATE_DAYS", 1)
    machine_id = await farhandd.enrol(plane)
    home = Home(farhandd.home)
    identity = load_identity(home)
    old = pki.issue_machine_certificate(
        plane.root,
        pki.create_csr(identity.key_pem.encode()),
        pki.MachineIdentity(instance_id=plane.instance_id, machine_id=machine_id),
        now=datetime.now(UTC) - timedelta(days=days_off),
    )
    store_identity(
        home,
        identity.with_certificate(
            key_pem=identity.key_pem.encode(), certificate_der=old, jitter=0.5
        ),
    )
    await farhandd.start("run")
    if renewed:
        await plane.connected(machine_id)
        assert plane.renewals == 1
    else:
        await _renewal_failed(farhandd)
        status = await _status(farhandd)
        assert status["state"] == "offline"
        assert "enrol again" in status["renewal_problem"]
        assert _streams(farhandd) == 0, "nobody dials with it"


async def test_a_certificate_becomes_new_while_the_link_is_up(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    await farhandd.start_hurried(0.5)  # it looks around every 2.5 s
    await plane.connected(machine_id)
    assert plane.renewals == 0
    _let_be_due(farhandd)
    await plane.connected(machine_id, after_epoch=1)  # the new one is shown at once
    assert plane.renewals == 1


async def test_a_refused_renewal_is_said_and_leaves_the_link_alone(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    plane.renewal_refusal = REFUSAL
    await farhandd.start_hurried(0.5)  # it looks around every 2.5 s
    await plane.connected(machine_id)
    _let_be_due(farhandd)
    await _renewal_failed(farhandd)
    status = await _status(farhandd)
    assert (status["state"], status["renewal_problem"]) == ("connected", REFUSAL)
    ok, said = await _certificate_check(farhandd)
    assert not ok
    assert "this certificate is not known → enrol again with farhandd enroll URL --force" in said
    assert REFUSAL in (await farhandd.call("status")).stdout
    assert plane.machines[machine_id].epoch == 1


async def test_with_an_ended_certificate_that_is_not_renewed_nobody_dials(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    await farhandd.enrol(plane)
    _age(plane, farhandd, days_since_end=31)
    daemon = await farhandd.start("run")
    await _renewal_failed(farhandd)
    assert (await _status(farhandd))["state"] == "offline"
    assert "enrol again with farhandd enroll URL --force" in (await _certificate_check(farhandd))[1]
    daemon.terminate()
    ended = await farhandd.wait(daemon)
    assert ended.status == 0
    assert ended.stderr.startswith("farhandd: cannot renew the certificate: it ended on ")
    assert ended.stderr.count("\n") == 1
    assert _streams(farhandd) == 0
    assert (farhandd.home / "daemon.log").read_text().count("renewal_failed") == 1


async def test_an_ended_certificate_is_renewed_when_the_server_is_back(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    _age(plane, farhandd, days_since_end=1)
    path = farhandd.home / "identity.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "enrol_address": "127.0.0.1:1"}))
    await farhandd.start("run")
    # The address is asked for again after some tries that found nobody.
    await plane.connected(machine_id)
    assert plane.renewals == 1
