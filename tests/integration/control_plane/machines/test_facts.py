"""What machines say of themselves: stored at each Hello, told when it changes, used to choose."""

from dataclasses import replace

from farhand_control_plane.db import machines, placing
from farhand_control_plane.domain.placement import place
from farhand_control_plane.domain.selector import parse
from farhand_shared.link_events import Repository, Survey
from tests.fakes.fake_daemon import FakeDaemon

SURVEY = Survey(
    disk_bytes=400 * 10**9,
    disk_free_bytes=200 * 10**9,
    gpus=("NVIDIA A10",),
    has_battery=True,
    on_battery=True,
    battery_percent=81,
    tools=(("docker", "24.0.7"), ("git", "2.39.5")),
    repositories=(Repository(remote="github.com/acme/Web", path=b"/home/\xff/web"),),
)


async def described(lab):
    rows = await lab.sql("select kind from events where kind like 'machine_%%' order by seq")
    return [row["kind"].removeprefix("machine_") for row in rows]


def recycled(daemon):
    """Return the same daemon's next stream, which says Hello anew."""
    newer = FakeDaemon(daemon.machine)
    newer.daemon_instance_id = daemon.daemon_instance_id
    return newer


async def view_of(lab, machine):
    async with lab.database.transaction() as tx:
        return await machines.get(tx, lab.instance.instance_id, machine.machine_id)


async def test_a_survey_is_stored_told_once_and_outlives_a_restart_of_the_daemon(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    machine.labels = (("team", "infra"),)
    async with FakeDaemon(machine) as daemon:
        view = await view_of(lab, machine)
        assert view.labels == {"team": "infra"}
        assert "tools" not in view.facts
        machine.survey = SURVEY
        async with recycled(daemon), recycled(daemon):
            view = await view_of(lab, machine)
            assert view.facts["tools"] == {"docker": "24.0.7", "git": "2.39.5"}
            assert view.facts["repositories"] == [
                {"remote": "github.com/acme/Web", "path": "/home/\udcff/web"}
            ]
            assert await described(lab) == ["enrolled", "confirmed", "online", "described"]
            machine.survey, machine.labels = None, ()
            async with recycled(daemon):
                view = await view_of(lab, machine)
                assert view.facts["tools"] == {"docker": "24.0.7", "git": "2.39.5"}
                assert view.labels == {}
                machine.survey = replace(SURVEY, tools=())
                async with recycled(daemon):
                    assert (await view_of(lab, machine)).facts["tools"] == {}


async def test_another_version_of_the_daemon_is_told_and_so_is_one_that_failed(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)

    async def news():
        rows = await lab.sql(
            "select kind, payload from events where kind like 'machine_update%%' order by seq"
        )
        return [(row["kind"], row["payload"]) for row in rows]

    async with FakeDaemon(machine) as daemon:
        told = len(await news())
        machine.version = "0.2.0"
        async with recycled(daemon):
            assert (await news())[told:] == [
                (
                    "machine_updated",
                    {"machine": machine.name, "version": "0.2.0", "before": "fake"},
                )
            ]
            assert (await view_of(lab, machine)).daemon_version == "0.2.0"
        machine.update_problem = "0.3.0 failed: it ended"
        async with recycled(daemon), recycled(daemon):
            assert (await news())[told + 1 :] == [
                (
                    "machine_update_failed",
                    {"machine": machine.name, "reason": "0.3.0 failed: it ended"},
                )
            ]
            facts = (await view_of(lab, machine)).facts
            assert facts["update_problem"] == "0.3.0 failed: it ended"


async def test_work_is_placed_by_what_a_machine_has_told(lab):
    replica = await lab.replica()
    machine = await lab.machine(replica)
    owner = lab.instance.owner_member_id

    async def why(selector):
        view = await view_of(lab, machine)
        placement = place(parse(selector), placing.candidates([view], owner))
        return placement.chosen is not None, placement.machines[0].reasons

    async with FakeDaemon(machine) as daemon:
        assert await why("tool:docker") == (
            False,
            ("it has not told yet whether it has tool:docker",),
        )
        machine.survey = SURVEY
        async with recycled(daemon):
            assert (await why("repo:acme/web tool:docker>=24 gpu disk>=100G"))[0]
            assert await why("plugged") == (False, ("on battery",))
            view = await view_of(lab, machine)
            assert placing.candidate(view, lab.instance.instance_id).is_askers is False
            odd = {"tools": {"git": 3}, "repositories": ["x", {}], "gpus": None, "cpus": "two"}
            strange = placing.candidate(replace(view, facts=odd), owner)
            assert (strange.cpus, strange.survey.tools) == (0, {"git": ""})
