"""A Worker's tools for files, from the model's call to what the model reads."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from farhand_control_plane.llm.blocks import Block, parse
from farhand_control_plane.llm.client import ModelService
from farhand_shared.file_operation import ReadFile, WriteFile
from tests.fakes.fake_files import FakeFiles
from tests.fakes.fake_model import Reply, fake_model
from tests.integration.control_plane.agents.conftest import Office, OpenOffice

_CODE = b"import os\n\n\ndef main():\n    print(os.name)\n"


class Scripted:
    """A model whose Worker makes these calls, each once the one before has its answer.

    A call may be made from what the earlier ones answered.
    """

    def __init__(self, *calls: "tuple[str, dict[str, Any] | Callable[[Scripted], Any]]") -> None:
        self._calls = list(calls)
        self.answers: list[Block] = []

    def __call__(self, request: dict[str, Any]) -> Reply:
        role = request["messages"][0]["content"].splitlines()[0]
        last = request["messages"][-1]
        blocks = list(parse(last["content"]))
        if "Worker" in role:
            return self._as_worker(blocks)
        for block in blocks if last["role"] == "user" else ():
            if block.tag == "eval":
                return _call("close_eval", eval_id=block.attrs["id"], verdict="accept", title="t")
            if block.tag == "report":
                about = {"thread_id": block.attrs["thread_id"], "report_id": block.attrs["id"]}
                return _call("reply", text=f"Done: {block.text}", **about)
        return Reply(text="nothing more")

    def _as_worker(self, blocks: list[Block]) -> Reply:
        answers = [one for one in blocks if one.tag not in ("ticket", "machine", "reported")]
        self.answers += answers
        if any(one.attrs.get("state") == "queued" for one in answers):
            return Reply()  # its end will come
        if not self._calls:
            return Reply()
        name, arguments = self._calls.pop(0)
        return _call(name, **(arguments(self) if callable(arguments) else arguments))

    @property
    def last(self) -> Block:
        return self.answers[-1]


def _call(name: str, **arguments: Any) -> Reply:
    return Reply(calls=[(name, json.dumps(arguments))])


_REPORT = ("report", {"kind": "ready", "text": "it is so"})


async def _work(open_office: OpenOffice, script: Scripted, files: FakeFiles) -> Office:
    async with fake_model([script]) as model:
        office: Office = await open_office(
            ModelService(model="scripted", base_url=model.base_url), inline_wait_s=30
        )
        machine = await office.lab.machine(office.replica, "box")
        machine.behaviour = files
        async with office.lab.daemon(machine, office.replica):
            await office.say("look into it")
            await office.hears("Done: it is so")
    return office


async def test_a_file_is_read_edited_and_read_again(open_office: OpenOffice) -> None:
    files = FakeFiles({b"src/app.py": _CODE})
    script = Scripted(
        ("read_file", {"machine": "box", "path": "src/app.py", "from_line": 4}),
        (
            "edit_file",
            lambda so_far: {
                "machine": "box",
                "path": "src/app.py",
                "old": "os.name",
                "new": "os.getpid()",
                "sha256": so_far.last.attrs["sha256"],
            },
        ),
        ("search_files", {"machine": "box", "pattern": "getpid"}),
        _REPORT,
    )
    office = await _work(open_office, script, files)
    read, edited, found = script.answers
    assert read.text == "     4\tdef main():\n     5\t    print(os.name)"
    assert edited.attrs["sha256"] == hashlib.sha256(files.files[b"src/app.py"]).hexdigest()
    assert found.text == "src/app.py:5:     print(os.getpid())"
    rows = await office.lab.sql("select title from commands order by created_at")
    assert [row["title"] for row in rows] == [
        "read src/app.py",
        "edit src/app.py",
        "search getpid in .",
    ]


async def test_what_a_person_changed_meanwhile_is_refused_and_kept(
    open_office: OpenOffice,
) -> None:
    files = FakeFiles({b"notes": b"one\n"})

    def write(so_far: Scripted) -> dict[str, Any]:
        files.files[b"notes"] = b"a person's own words\n"
        sha256 = so_far.last.attrs["sha256"]
        return {"machine": "box", "path": "notes", "content": "two\n", "sha256": sha256}

    script = Scripted(
        ("read_file", {"machine": "box", "path": "notes"}),
        ("write_file", write),
        ("write_file", {"machine": "box", "path": "notes", "content": "three\n"}),
        _REPORT,
    )
    await _work(open_office, script, files)
    assert files.files[b"notes"] == b"a person's own words\n"
    _, changed, exists = script.answers
    assert (changed.tag, changed.attrs["code"]) == ("error", "changed")
    assert (exists.tag, exists.attrs["code"]) == ("error", "exists")


async def test_calls_that_cannot_be_right_reach_no_machine(open_office: OpenOffice) -> None:
    files = FakeFiles({b"a": b"b"})
    hash_ = "0" * 63
    script = Scripted(
        ("edit_file", {"machine": "box", "path": "a", "old": "b", "new": "c", "sha256": hash_}),
        ("edit_file", {"machine": "box", "path": "a", "old": "b", "new": "c"}),
        ("write_file", {"machine": "box", "path": "a", "content": "\ud800"}),
        ("read_file", {"machine": "elsewhere", "path": "a"}),
        _REPORT,
    )
    await _work(open_office, script, files)
    assert [one.attrs["code"] for one in script.answers] == [
        "invalid_input",
        "invalid_arguments",
        "invalid_input",
        "unknown_machine",
    ]
    assert files.asked == []


async def test_a_file_of_an_offline_machine_is_waited_for(open_office: OpenOffice) -> None:
    files = FakeFiles()
    script = Scripted(
        ("write_file", {"machine": "away", "path": "new/one", "content": "hello\n"}),
        _REPORT,
    )
    async with fake_model([script]) as model:
        office: Office = await open_office(
            ModelService(model="scripted", base_url=model.base_url), inline_wait_s=0.1
        )
        machine = await office.lab.machine(office.replica, "away")
        machine.behaviour = files
        await office.say("write it")

        async def waits() -> bool:
            return any(one.attrs.get("waits_for") == "away" for one in script.answers)

        await office.until(waits)
        assert not files.asked
        async with office.lab.daemon(machine, office.replica):
            await office.hears("Done: it is so")
    (operation,) = files.asked
    assert isinstance(operation, WriteFile)
    assert operation.make_parents
    assert script.last.attrs["created"] == "yes"


async def test_the_planner_reads_a_file_and_its_content_comes_with_the_answer(
    open_office: OpenOffice,
) -> None:
    office = await open_office()
    machine = await office.lab.machine(office.replica, "box")
    files = FakeFiles({b"notes": b"remember the milk\n"})
    machine.behaviour = files
    async with office.lab.daemon(machine, office.replica):
        await office.say("read notes on box")
        reply = await office.hears("`read notes` on box: 18 bytes.")
        await office.say("read gone on box")
        await office.hears("failed: cannot read gone: it does not exist")
    (command_id,) = reply["command_ids"]
    view = await office.lab.view(command_id)
    assert view.title == "read notes"
    assert [type(one) for one in files.asked] == [ReadFile, ReadFile]
