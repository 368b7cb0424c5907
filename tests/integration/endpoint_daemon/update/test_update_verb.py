"""``farhandd update``: releases that a control plane carries, installed by a real pip."""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.carried_release import Signer, carry
from tests.fakes.installed_program import InstalledProgram, trusting
from tests.integration.endpoint_daemon.conftest import Ended
from tests.integration.endpoint_daemon.update.conftest import PASSES_S, Machine, machine_file


@dataclass(kw_only=True)
class Trusting(Machine):
    """A machine whose program was built with a release key."""

    signer: Signer

    async def farhandd_says(self, *words: str) -> Ended:
        process = await asyncio.create_subprocess_exec(
            self.program.farhandd,
            *(*words, "--home", str(self.home)),
            stdin=asyncio.subprocess.DEVNULL,
            # The index is the control plane's, whatever pip is told on the computer that tests.
            env={name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
            | {"PIP_CONFIG_FILE": os.devnull},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    async def said(self, *words: str) -> str:
        ended = await self.farhandd_says(*words)
        assert ended.status == 0, ended.stderr
        return ended.stdout

    async def refused(self, *words: str) -> str:
        ended = await self.farhandd_says(*words)
        assert ended.status == 1, ended.stdout
        (line,) = ended.stderr.splitlines()
        assert line.startswith("farhandd: cannot ")
        return line


@pytest.fixture
def machine(machine: Machine, tmp_path: Path) -> Trusting:
    signer = Signer.make()
    keys = tmp_path / "release_keys.txt"
    keys.write_text(f"{signer.public.text} test\n")
    program = InstalledProgram.make(tmp_path / "trusting", sabotage=trusting(keys))
    return Trusting(
        machine.plane,
        program,
        machine.home,
        machine.machine_id,
        machine.farhandd,
        machine.processes,
        signer=signer,
    )


async def test_a_signed_release_is_installed_and_changed_to_and_the_way_back_is_kept(
    machine: Trusting,
) -> None:
    carry(machine.plane.pages, machine.signer, "0.2.0")
    assert "0.2.0 of stable can be installed" in await machine.said("update", "--check")
    assert len(list(machine.program.folder.glob("*/complete"))) == 2  # the version and current
    await machine.run()
    await machine.connects("0.1.0")
    assert "The daemon changes to 0.2.0 now" in await machine.said("update")
    await machine.comes_to(lambda: machine.program.slots.previous() is not None)
    await machine.connects("0.2.0")
    assert not (machine.program.folder / "installing").exists()
    assert "version      0.2.0; " in await machine.said("status")
    assert "The daemon changes to 0.1.0 now" in await machine.said("update", "--rollback")
    await machine.connects("0.1.0")


async def test_a_release_that_fails_is_told_and_tried_again_only_when_it_is_named(
    machine: Trusting,
) -> None:
    sabotage = "if 'run' in sys.argv: sys.exit(7)"
    release = carry(machine.plane.pages, machine.signer, "0.2.0", sabotage=sabotage)
    await machine.run()
    await machine.connects("0.1.0")
    await machine.said("update")
    slot = release.wheel.sha256[:16]
    machine.farhandd.narrow(machine_file(probation_s=60))
    await machine.comes_to(lambda: machine.program.state.bad_version(slot) is not None)
    await machine.connects("0.1.0")
    assert "0.2.0 failed here on " in await machine.said("status")
    doctor = await machine.farhandd_says("doctor", "--json")
    (check,) = [one for one in json.loads(doctor.stdout)["items"] if one["check"] == "update"]
    assert not check["ok"]
    assert "the last time with exit status 7" in check["result"]
    assert "farhandd update --to 0.2.0" in check["next_step"]
    said = await machine.said("update")
    assert said.startswith("Nothing to do: 0.2.0 failed on this machine")
    assert machine.program.state.ready is None
    await machine.said("update", "--to", "0.2.0")
    ready = machine.program.state.ready
    assert ready is None or ready.slot == slot


async def test_only_what_the_pinned_key_signed_is_installed(machine: Trusting) -> None:
    carry(machine.plane.pages, Signer.make(), "0.2.0")
    assert "none of the keys that this machine trusts" in await machine.refused("update")
    release = carry(machine.plane.pages, machine.signer, "0.2.0")
    for file in (release.wheel, release.requirements, release.pip):
        pages = dict(machine.plane.pages)
        path = f"/updates/files/{file.sha256}"
        machine.plane.pages[path] = pages[path][:-1] + b"!"
        line = await machine.refused("update")
        assert f"{file.name} from {machine.plane.url} is not what was signed" in line
        machine.plane.pages.update(pages)
    # A dependency is named by its hash in what was signed.
    (wheel,) = [path for path in machine.plane.pages if path.endswith("-1.0-py3-none-any.whl")]
    machine.plane.pages[wheel] += b"!"
    assert "cannot install the dependencies" in await machine.refused("update")
    assert len(list(machine.program.folder.glob("*/complete"))) == 2
    assert machine.program.state.ready is None


async def test_what_was_signed_must_be_what_it_says_it_is(machine: Trusting) -> None:
    release = carry(machine.plane.pages, machine.signer, "0.2.0", calls_itself="0.3.0")
    assert "calls itself 'farhandd 0.3.0'" in await machine.refused("update")
    assert machine.program.state.bad_version(release.wheel.sha256[:16]) is not None


async def test_off_and_not_now_are_obeyed_and_said(machine: Trusting) -> None:
    carry(machine.plane.pages, machine.signer, "0.2.0")
    before = machine_file(probation_s=PASSES_S) + "# mine\n"
    machine.farhandd.narrow(before)
    await machine.said("update", "--off")
    text = (machine.home / "machine.toml").read_text()
    assert text == before + 'update = "off"\n'
    assert "updates are off on this machine" in await machine.said("update")
    assert "machine's file says off" in await machine.said("status")
    assert "of beta are installed" in await machine.said("update", "--channel", "beta")
    assert (machine.home / "machine.toml").read_text() == text.replace("off", "beta")
    assert "carries no release of beta" in await machine.said("update")
    assert "update is 'No'" in await machine.refused("update", "--channel", "No")
    await machine.said("update", "--channel", "stable")
    assert "before" in await machine.said("update", "--wait", "5")
    await machine.said("update", "--by-daemon")
    assert machine.program.state.ready is None
    assert "not before" in await machine.said("status")
    # A person who asks now means now.
    assert "0.2.0 is tried when the daemon starts" in await machine.said("update")
    state = machine.program.state
    assert state.ready is not None
    assert (state.ready.asked, state.not_before_ms) == (True, 0)
    # Without a person it is the same, but for who asked.
    await machine.said("update", "--by-daemon")
    state = machine.program.state
    assert state.ready is not None
    assert (state.ready.asked, state.check_result) == (False, "0.2.0 was installed to be tried")
