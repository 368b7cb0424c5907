"""What a machine tells of itself: labels at once, a survey later, and never in work's way."""

import asyncio
import json
import time
from collections.abc import Callable

from tests.fakes.fake_control_plane import FakeControlPlane
from tests.integration.endpoint_daemon.conftest import Farhandd


async def _eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.05)  # nothing announces it


async def test_a_survey_waits_for_running_work_and_is_told_by_the_next_hello(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    machine_id = await farhandd.enrol(plane)
    work = farhandd.home.parent / "work"
    git = work / "web" / ".git"
    git.mkdir(parents=True)
    (git / "config").write_text('[remote "origin"]\n\turl = https://a:b@github.com/acme/web.git\n')
    farhandd.narrow(
        f'trust_level = "trusted"\nroots = [{json.dumps(str(work))}]\nlabels = ["team=infra"]\n'
    )
    await farhandd.start("run")
    await plane.connected(machine_id)
    hellos = plane.machines[machine_id].hellos
    assert (hellos[0].facts.labels, hellos[0].facts.survey) == ((("team", "infra"),), None)

    gate = work / "gate"
    attempt = plane.offer(machine_id, f"until [ -e {gate} ]; do sleep 0.05; done".encode())
    log = farhandd.home / "daemon.log"
    await _eventually(lambda: '"event": "surveyed"' in log.read_text())
    await asyncio.sleep(6.0)  # longer than the daemon takes to notice news: it must not act on it
    assert len(hellos) == 1
    gate.touch()
    await plane.result(attempt)
    assert attempt.result is not None
    assert attempt.result.exit_code == 0
    await plane.connected(machine_id, after_epoch=1)
    survey = hellos[1].facts.survey
    assert survey is not None
    assert [one.remote for one in survey.repositories] == ["github.com/acme/web"]
    assert "git" in dict(survey.tools)
    assert len(hellos) == 2
