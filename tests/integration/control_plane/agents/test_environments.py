"""A ticket that asks for an environment: made for it, used by it alone, gone after it."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from farhand_control_plane.config import load
from farhand_control_plane.db import environments
from farhand_control_plane.domain.environments import Limits, Offer
from farhand_control_plane.domain.words import TicketOutcome
from farhand_control_plane.ingest import tickets as ticket_life
from farhand_control_plane.provisioning.local_process import LocalProcess
from farhand_control_plane.provisioning.provisioner import Request, Site
from farhand_shared.errors import InvalidInput
from tests.fakes.well_known import well_known
from tests.integration.control_plane.agents.conftest import Office, OpenOffice
from tests.integration.control_plane.provisioning.conftest import Yard

OFFER = Offer(provisioner="local_process", limits=Limits(grace_s=0, per_member=1))


class Grounds:
    """An office, and the place where its environments are made."""

    def __init__(self, office: Office, yard: Yard) -> None:
        self.office = office
        self.yard = yard

    async def gone(self) -> None:
        """Wait until every environment is destroyed; nothing of them is left."""

        async def look() -> bool:
            async with self.office.database.transaction() as tx:
                instance_id = self.office.instance.instance_id
                return not await environments.list_all(tx, instance_id)

        await self.office.until(look)
        assert self.yard.left() == ([], set())


@pytest.fixture
async def grounds(open_office: OpenOffice, tmp_path: Path) -> AsyncIterator[Grounds]:
    async with AsyncExitStack() as stack:
        office = await open_office(offer=OFFER)
        yard = Yard(
            lab=office.lab,
            replica=office.replica,
            url=stack.enter_context(well_known(office.replica)),
            site=Site(
                instance_id=office.instance.instance_id,
                folder=tmp_path / "environments",
                settings=load({"FARHAND_HOME": str(tmp_path)}),
                environ=os.environ,
            ),
            until=office.until,
        )
        yield Grounds(office, yard)
        await yard.clear()


async def test_a_ticket_gets_an_environment_of_its_own_that_goes_with_it(grounds: Grounds) -> None:
    office = grounds.office
    async with grounds.yard.loop(offer=OFFER):
        await office.say(
            "run echo hello > ~/kept on a fresh environment\nrun cat ~/kept on a fresh environment"
        )
        reply = await office.hears("ended with exit status 0")
        (ticket,) = await office.tickets()
        assert ticket.row.outcome is TicketOutcome.DONE
        (machine,) = ticket.row.machines
        assert machine.name.startswith("env-")
        first, second = [await office.lab.view(one) for one in reply["command_ids"]]
        assert first.machine_id == second.machine_id
        assert second.result is not None
        assert second.result.stdout.produced == len("hello\n")
        await grounds.gone()
        await office.say("run cat ~/kept on a fresh environment", conversation="another")
        await office.hears("ended with exit status 1")
        await grounds.gone()


async def test_a_ticket_that_is_stopped_takes_its_environment_with_it(grounds: Grounds) -> None:
    office = grounds.office
    async with grounds.yard.loop(offer=OFFER):
        await office.say("run echo begun; sleep 600 on a fresh environment")

        async def runs() -> bool:
            rows = await office.lab.sql("select 1 from attempts where state = 'started'")
            return bool(rows)

        await office.until(runs)
        (ticket,) = await office.tickets()
        async with office.database.transaction() as tx:
            await ticket_life.stop_ticket(
                tx,
                office.instance.instance_id,
                ticket.row.ticket_id,
                office.instance.owner_member_id,
                "a test",
            )
        await grounds.gone()


async def test_a_ticket_at_the_limit_is_told_what_to_do(grounds: Grounds) -> None:
    office = grounds.office
    await grounds.yard.want()  # there is one, for no ticket
    await office.say("run true on a fresh environment")
    heard = await office.hears("cannot make an environment: you have 1 (env-")
    assert (
        "the limit is 1; close a ticket or destroy one with farhand machines destroy"
        in (heard["text"])
    )


async def test_at_the_limit_one_that_is_kept_for_a_closed_ticket_is_said_to_go(
    grounds: Grounds,
) -> None:
    office = grounds.office
    kept = replace(OFFER, limits=replace(OFFER.limits, grace_s=3600))
    async with grounds.yard.loop(offer=kept):
        await office.say("run true on a fresh environment")
        await office.hears("ended with exit status 0")
        await office.say("run true on a fresh environment", conversation="another")
        heard = await office.hears("cannot make an environment: you have 1 (env-")
    assert ", which goes in " in heard["text"]
    assert "ask again when one has gone, or destroy one" in heard["text"]


async def test_a_ticket_whose_environment_cannot_be_made_says_why(grounds: Grounds) -> None:
    class Wrong(LocalProcess):
        async def create(self, request: Request) -> None:
            raise InvalidInput("cannot make it: no image is named")

    office = grounds.office
    async with grounds.yard.loop(Wrong(grounds.yard.site), offer=OFFER):
        await office.say("run true on a fresh environment")
        heard = await office.hears("cannot make it: no image is named")
    assert "was cancelled before it started" in heard["text"]
    (ticket,) = await office.tickets()
    assert ticket.row.needs is not None, "a person decides what to do now"


async def test_where_nothing_makes_environments_that_is_said(open_office: OpenOffice) -> None:
    office = await open_office()
    await office.say("run true on a fresh environment")
    await office.hears("no provisioner is configured; set FARHAND_PROVISIONER")
