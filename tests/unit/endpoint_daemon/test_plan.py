"""The machine's verdict on an offer, and the hash of what would really run."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from farhand_daemon.file_argv import unpack
from farhand_daemon.machine_file import Ceiling, MachineFile
from farhand_daemon.plan import Deny, Plan, judge, judge_offer, own_folders
from farhand_shared import codec
from farhand_shared.command import Argv, CommandSpec, Limits, Pty, Shell
from farhand_shared.file_operation import (
    ABSENT,
    EditFile,
    ReadFile,
    RemoveFile,
    Replacement,
    WriteFile,
)
from farhand_shared.ids import new_id
from farhand_shared.link_events import Offer


def _offer(*, inferred: bool = False) -> Offer:
    return Offer(
        attempt_id="a",
        command_id="c",
        stream_epoch=1,
        spec=b"",
        input_digest=b"",
        start_within_ms=1000,
        tier=1,
        inferred=inferred,
        requester="m",
    )


def _machine(root: Path, **changes: object) -> MachineFile:
    return replace(MachineFile(trust_level="trusted", roots=(root,)), **changes)  # type: ignore[arg-type] # keyword names are checked by the dataclass


def _echo(cwd: bytes | None = None) -> CommandSpec:
    return CommandSpec(run=Argv(argv=(b"echo", b"hi")), cwd=cwd)


def _denied(verdict: Plan | Deny) -> str:
    assert isinstance(verdict, Deny)
    assert verdict.message.startswith("cannot ")
    assert ": " in verdict.message
    assert "; " in verdict.message
    assert verdict.message.isprintable()
    return verdict.reason_code


def _planned(verdict: Plan | Deny) -> Plan:
    assert isinstance(verdict, Plan), verdict
    return verdict


def test_off_allows_nothing(tmp_path: Path) -> None:
    machine = _machine(tmp_path, trust_level="off")
    assert _denied(judge(_offer(), _echo(), machine)) == "trust_off"


def test_inferred_work_needs_the_machines_yes(tmp_path: Path) -> None:
    asked = judge(_offer(inferred=True), _echo(), _machine(tmp_path))
    assert _denied(asked) == "inferred_not_allowed"
    _planned(judge(_offer(inferred=True), _echo(), _machine(tmp_path, allow_inferred=True)))


def test_the_first_root_is_the_default_directory(tmp_path: Path) -> None:
    plan = _planned(judge(_offer(), _echo(), _machine(tmp_path)))
    assert plan.cwd == bytes(tmp_path.resolve())
    assert plan.argv == (b"echo", b"hi")


def test_a_script_is_one_argument_of_sh(tmp_path: Path) -> None:
    spec = CommandSpec(run=Shell(script=b"echo 'a  b' | cat"))
    plan = _planned(judge(_offer(), spec, _machine(tmp_path)))
    assert plan.argv == (b"/bin/sh", b"-c", b"echo 'a  b' | cat")


@pytest.mark.parametrize("cwd", [b"/", b"/etc", b"/no/such", b"..", b"inside/../../x"])
def test_a_directory_outside_the_roots_is_denied(tmp_path: Path, cwd: bytes) -> None:
    root = tmp_path / "root"
    root.mkdir()
    assert _denied(judge(_offer(), _echo(cwd), _machine(root))) == "cwd_denied"


def test_a_link_out_of_the_roots_is_denied(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to("/etc")
    assert _denied(judge(_offer(), _echo(bytes(root / "out")), _machine(root))) == "cwd_denied"


def test_a_sibling_whose_name_begins_like_a_root_is_denied(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "root2").mkdir()
    assert _denied(judge(_offer(), _echo(bytes(tmp_path / "root2")), _machine(root))) == (
        "cwd_denied"
    )


def test_a_missing_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for cwd in (bytes(tmp_path / "gone"), bytes(tmp_path / "file"), b"", b"a\0b"):
        assert _denied(judge(_offer(), _echo(cwd), _machine(tmp_path))) == "cwd_missing"


def test_directories_may_be_any_bytes(tmp_path: Path) -> None:
    folder = bytes(tmp_path.resolve()) + b"/\xff\xfe"
    Path(folder.decode(errors="surrogateescape")).mkdir()
    assert _planned(judge(_offer(), _echo(folder), _machine(tmp_path))).cwd == folder


def test_the_root_folder_as_root_allows_everything() -> None:
    assert _planned(judge(_offer(), _echo(b"/usr"), _machine(Path("/")))).cwd == b"/usr"


def test_handles_in_text_are_refused_with_a_hint(tmp_path: Path) -> None:
    for spec in (
        CommandSpec(run=Argv(argv=(b"curl", b"-H", b"X: cred://github"))),
        CommandSpec(run=Shell(script=b"echo cred://github#token")),
        CommandSpec(run=Argv(argv=(b"env",)), env=((b"T", b"cred://github"),)),
    ):
        verdict = judge(_offer(), spec, _machine(tmp_path))
        assert _denied(verdict) == "handle_in_text"


def test_what_no_program_can_be_given_is_refused(tmp_path: Path) -> None:
    machine = _machine(tmp_path)
    nul = CommandSpec(run=Argv(argv=(b"echo", b"a\0b")))
    assert _denied(judge(_offer(), nul, machine)) == "nul_in_argv"
    assert _denied(judge(_offer(), CommandSpec(run=Argv(argv=())), machine)) == "empty_command"
    for name, value in ((b"", b""), (b"A=B", b""), (b"A", b"\0")):
        spec = CommandSpec(run=Argv(argv=(b"env",)), env=((name, value),))
        assert _denied(judge(_offer(), spec, machine)) == "bad_variable"


def test_the_plan_hash_changes_with_anything_that_would_run_differently(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    base = CommandSpec(run=Argv(argv=(b"ab", b"c")))
    others = [
        CommandSpec(run=Argv(argv=(b"a", b"bc"))),
        CommandSpec(run=Argv(argv=(b"ab", b"c", b""))),
        replace(base, env=((b"A", b"1"),)),
        replace(base, cwd=b"sub"),
        replace(base, execution_timeout_ms=5),
        replace(base, grace_ms=5),
        replace(base, limits=Limits(memory_bytes=8 << 20)),
        replace(base, limits=Limits(processes=8 << 20)),
        replace(base, limits=Limits(open_files=64)),
        replace(base, stdin=True),
        replace(base, pty=Pty(rows=24, columns=80)),
    ]
    plans = [_planned(judge(_offer(), spec, _machine(tmp_path))) for spec in [base, *others]]
    hashes = [plan.digest() for plan in plans]
    assert len(set(hashes)) == len(hashes)
    assert plans[0].digest() == replace(plans[0]).digest()


def test_a_terminal_says_its_kind_unless_the_command_does(tmp_path: Path) -> None:
    spec = replace(_echo(), pty=Pty(rows=24, columns=80, term=b"xterm"))
    plan = _planned(judge(_offer(), spec, _machine(tmp_path)))
    assert (plan.terminal, dict(plan.env)) == ((24, 80), {b"TERM": b"xterm"})
    larger = replace(spec, pty=Pty(rows=50, columns=80, term=b"xterm"))
    assert _planned(judge(_offer(), larger, _machine(tmp_path))).digest() == plan.digest()
    own = replace(spec, env=((b"TERM", b"dumb"),))
    assert dict(_planned(judge(_offer(), own, _machine(tmp_path))).env) == {b"TERM": b"dumb"}
    wrong = replace(spec, pty=Pty(rows=24, columns=80, term=b"a\0b"))
    assert _denied(judge(_offer(), wrong, _machine(tmp_path))) == "bad_variable"


def test_an_offer_that_is_not_what_it_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    path.write_text(f'trust_level = "trusted"\nroots = ["{tmp_path}"]\n')
    ceiling = Ceiling(path)
    spec = codec.encode_spec(_echo())
    good = replace(_offer(), attempt_id=new_id(), spec=spec, input_digest=codec.input_digest(spec))
    assert isinstance(judge_offer(good, ceiling), Plan)
    garbage = b"\xff\xff"
    for wrong, code in (
        (replace(good, attempt_id="../../etc/x"), "bad_attempt_id"),
        (replace(good, input_digest=b"0" * 32), "digest_mismatch"),
        (
            replace(good, spec=garbage, input_digest=codec.input_digest(garbage)),
            "unknown_command",
        ),
    ):
        assert _denied(judge_offer(wrong, ceiling)) == code
    path.unlink()
    assert _denied(judge_offer(good, ceiling)) == "machine_file_invalid"


def test_a_file_operation_is_given_the_roots_and_nothing_of_the_asker(tmp_path: Path) -> None:
    read = ReadFile(path=b"/etc/passwd")
    spec = CommandSpec(run=read, env=((b"PATH", b"/evil"),), pty=Pty(rows=1, columns=1))
    plan = _planned(judge(_offer(), spec, _machine(tmp_path), own=[tmp_path / "home"]))
    assert (plan.file, plan.env, plan.terminal) == (True, (), None)
    request = unpack(plan.argv)
    assert request["operation"] == "ReadFile"
    assert request["fields"]["path"] == b"/etc/passwd"
    assert request["roots"] == [os.fsencode(tmp_path)]
    assert request["own"] == [os.fsencode(tmp_path / "home")]


def test_the_hash_of_a_file_operation_is_of_everything_it_does(tmp_path: Path) -> None:
    edit = EditFile(path=b"f", edits=(Replacement(old=b"a", new=b"b"),))
    operations = [
        edit,
        replace(edit, edits=(Replacement(old=b"a", new=b"c"),)),
        replace(edit, edits=(Replacement(old=b"a", new=b"b", all=True),)),
        WriteFile(path=b"f", data=b"a"),
        WriteFile(path=b"f", data=b"a", expect=ABSENT),
        RemoveFile(path=b"f"),
    ]
    machine = _machine(tmp_path)
    plans = [_planned(judge(_offer(), CommandSpec(run=one), machine)) for one in operations]
    as_argv = Argv(argv=plans[0].argv)
    plans += [
        _planned(judge(_offer(), CommandSpec(run=edit), _machine(tmp_path.parent))),
        _planned(judge(_offer(), CommandSpec(run=edit), machine, own=[tmp_path])),
        _planned(judge(_offer(), CommandSpec(run=as_argv), machine)),
    ]
    assert len({plan.digest() for plan in plans}) == len(plans)


def test_text_of_a_file_operation_may_name_handles(tmp_path: Path) -> None:
    write = WriteFile(path=b"f", data=b"token: cred://github")
    _planned(judge(_offer(), CommandSpec(run=write), _machine(tmp_path)))


def test_off_allows_no_file_operation(tmp_path: Path) -> None:
    spec = CommandSpec(run=ReadFile(path=b"f"))
    machine = _machine(tmp_path, trust_level="off")
    assert _denied(judge(_offer(), spec, machine)) == "trust_off"


def test_the_daemons_folders_are_its_home_and_its_installed_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_file = tmp_path / "home" / "machine.toml"
    assert own_folders(machine_file) == (tmp_path / "home",)
    version = tmp_path / "farhandd-program" / "1"
    version.mkdir(parents=True)
    (version / "complete").touch()
    monkeypatch.setattr("sys.prefix", str(version))
    assert own_folders(machine_file) == (tmp_path / "home", version.parent)
