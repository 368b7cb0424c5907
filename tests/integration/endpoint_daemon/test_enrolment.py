"""Enrolment by the real command against a control plane on real sockets."""

import asyncio
import json
import os
import sys

import pytest

from tests.fakes.fake_control_plane import FakeControlPlane, fake_control_plane
from tests.integration.endpoint_daemon.conftest import Ended, Farhandd


def _one_line(ended: Ended) -> str:
    """Return the error line, having checked that it is the only one and no traceback."""
    assert ended.status == 1
    assert ended.stderr.startswith("farhandd: cannot ")
    assert ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


async def test_a_typed_code_and_yes_make_a_machine(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    process = await farhandd.start("enroll", plane.url, "--name", "laptop")
    assert process.stdin is not None
    process.stdin.write((plane.make_code().lower().replace("-", " ") + "\nyes\n").encode())
    await plane.until(lambda: bool(plane.machines))
    (machine,) = plane.machines.values()
    assert process.returncode is None  # it waits for the confirmation
    machine.status, machine.name = "active", "laptop-2"
    ended = await farhandd.wait(process)
    assert ended.status == 0, ended.stderr
    assert "Six words of this machine: " in ended.stdout
    assert "without a sandbox" in ended.stdout
    assert "laptop-2" in ended.stdout.splitlines()[-1]

    home = farhandd.home
    assert home.stat().st_mode & 0o777 == 0o700
    for name in ("identity.json", "machine.toml"):
        assert (home / name).stat().st_mode & 0o777 == 0o600
    assert not (home / "enrolling.json").exists()
    assert 'chosen_by = "typed"' in (home / "machine.toml").read_text()


async def test_anything_but_yes_leaves_nothing_and_keeps_the_code(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    code = plane.make_code()
    ended = await farhandd.call("enroll", plane.url, "--no-wait", typed=f"{code}\ny\n")
    assert "not yes" in _one_line(ended)
    assert not plane.machines
    ended = await farhandd.call("enroll", plane.url, "--no-wait", typed=f"{code}\nyes\n")
    assert ended.status == 0, ended.stderr


async def test_a_machine_may_enrol_switched_off(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    ended = await farhandd.call(
        "enroll", plane.url, "--no-wait", "--trust", "off", typed=plane.make_code()
    )
    assert ended.status == 0, ended.stderr
    assert 'trust_level = "off"' in (farhandd.home / "machine.toml").read_text()


async def test_trusted_is_not_chosen_by_an_option_alone(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    ended = await farhandd.call(
        "enroll", plane.url, "--no-wait", "--trust", "trusted", typed=plane.make_code()
    )
    assert "not yes" in _one_line(ended)


async def test_an_administrator_enrols_trusted_with_code_and_yes_in_a_pipe(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    arguments = ("enroll", plane.url, "--code-stdin", "--trust", "trusted", "--no-wait")
    code = plane.make_code()
    said = _one_line(await farhandd.call(*arguments, typed=code + "\n"))
    assert "in the line after the code" in said
    ended = await farhandd.call(*arguments, typed=f"{code}\nyes\n")
    assert ended.status == 0, ended.stderr
    assert 'chosen_by = "preset"' in (farhandd.home / "machine.toml").read_text()
    told = (await farhandd.call("enroll", "--help")).stdout
    assert "printf '%s\\nyes\\n' \"$CODE\" | farhandd enroll URL --code-stdin" in told
    assert 'trust_level = "trusted"' in told


async def _typed(
    plane: FakeControlPlane, farhandd: Farhandd, options: tuple[str, ...], *lines: str
) -> Ended:
    """Type these lines to `enroll` on a terminal of its own."""
    ours, theirs = os.openpty()
    os.write(ours, "".join(line + "\n" for line in lines).encode())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "farhand_daemon", "enroll", plane.url, "--no-wait"),
        *(*options, "--home", str(farhandd.home)),
        stdin=theirs,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(theirs)
    farhandd.started.append(process)
    ended = await farhandd.wait(process)
    os.close(ours)
    return ended


async def test_on_a_terminal_a_mistyped_code_is_asked_for_again(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    code = plane.make_code()
    wrong = code[:-1] + ("A" if code[-1] != "A" else "B")
    off = ("--trust", "off")
    ended = await _typed(plane, farhandd, off, wrong, wrong, wrong, code)
    assert "mistyped" in _one_line(ended)
    assert ended.stdout.count("Enrolment code") == 3
    ended = await _typed(plane, farhandd, off, wrong, "", code)
    assert ended.status == 0, ended.stderr
    assert ended.stdout.count("Enrolment code") == 3


@pytest.mark.parametrize(
    ("answers", "asked", "trusted"),
    [
        (("y", "YES"), 2, True),
        (("", "sure", " yes "), 3, True),
        (("y", "y", "y", "yes"), 3, False),
        (("y", "no", "yes"), 2, False),
        (("\x04",), 1, False),  # Ctrl-D
    ],
)
async def test_on_a_terminal_trust_is_asked_again_until_the_answer_is_yes_or_no(
    plane: FakeControlPlane,
    farhandd: Farhandd,
    answers: tuple[str, ...],
    asked: int,
    trusted: bool,
) -> None:
    code = plane.make_code()
    ended = await _typed(plane, farhandd, (), code, *answers)
    assert ended.stdout.count("Type yes to trust it") == asked
    assert bool(plane.machines) is trusted
    if trusted:
        assert ended.status == 0, ended.stderr
    else:
        assert "the code is still good" in _one_line(ended)


async def test_a_mistyped_code_in_a_pipe_ends_it(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    code = plane.make_code()
    ended = await farhandd.call(
        "enroll", plane.url, "--no-wait", "--trust", "off", typed=f"{code[:-2]}\n{code}\n"
    )
    assert "enrolment code" in _one_line(ended)
    assert not plane.machines


async def test_a_preset_machine_file_is_kept(plane: FakeControlPlane, farhandd: Farhandd) -> None:
    farhandd.home.mkdir(mode=0o700)
    farhandd.narrow('trust_level = "trusted"\nchosen_by = "preset"\nconcurrency = 2\n')
    ended = await farhandd.call("enroll", plane.url, "--no-wait", typed=plane.make_code())
    assert ended.status == 0, ended.stderr
    assert "concurrency = 2" in (farhandd.home / "machine.toml").read_text()


async def test_the_words_are_computed_here_and_must_agree(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    plane.words_shown = ("a", "b", "c", "d", "e", "f")
    ended = await farhandd.call(
        "enroll", plane.url, "--no-wait", "--trust", "off", typed=plane.make_code()
    )
    assert "other words" in _one_line(ended)
    assert not (farhandd.home / "identity.json").exists()


async def test_wrong_used_expired_and_mistyped_codes_are_said(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    async def try_code(code: str) -> str:
        return _one_line(
            await farhandd.call("enroll", plane.url, "--no-wait", "--trust", "off", typed=code)
        )

    unknown = plane.make_code()
    plane.codes.clear()
    assert "wrong" in await try_code(unknown)
    assert "expired" in await try_code(plane.make_code(lifetime_s=-1))
    used = plane.make_code()
    next(reversed(plane.codes.values())).used_by = b"another key"
    assert "used" in await try_code(used)
    mistyped = plane.make_code()
    swapped = mistyped[:-1] + ("A" if mistyped[-1] != "A" else "B")
    said = await try_code(swapped)
    assert swapped not in said
    assert "no code" in await try_code("\n")
    await try_code("\0\n")
    await try_code("x" * 100_000 + "\n")


async def test_a_wrong_server_root_names_both_pins(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    async with fake_control_plane() as other:
        ended = await farhandd.call(
            "enroll", plane.url, "--no-wait", "--trust", "off", typed=other.make_code()
        )
    said = _one_line(ended)
    assert "its root is" in said
    assert not plane.machines


async def test_what_is_no_control_plane_is_said(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    for url in ("http://127.0.0.1:1", "ftp://x", "http://", f"127.0.0.1:{plane.enrol_port}"):
        _one_line(await farhandd.call("enroll", url, "--no-wait", typed=plane.make_code()))


async def test_a_home_that_cannot_be_written_is_said(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    farhandd.home.write_text("a file")
    ended = await farhandd.call("enroll", plane.url, typed=plane.make_code())
    assert str(farhandd.home) in _one_line(ended)


async def test_a_bad_name_is_said(plane: FakeControlPlane, farhandd: Farhandd) -> None:
    for name in ("", "a\nb", "x" * 65):
        _one_line(await farhandd.call("enroll", plane.url, "--name", name))


async def test_an_enrolled_home_is_not_enrolled_again_by_accident(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    first = await farhandd.enrol(plane)
    ended = await farhandd.call("enroll", plane.url, typed=plane.make_code())
    assert "--force" in _one_line(ended)
    ended = await farhandd.call(
        "enroll", plane.url, "--force", "--no-wait", "--json", typed=plane.make_code()
    )
    assert ended.status == 0, ended.stderr
    assert json.loads(ended.stdout)["machine_id"] != first


async def test_an_answer_lost_on_the_way_gives_the_same_machine_again(
    plane: FakeControlPlane, farhandd: Farhandd
) -> None:
    plane.redeem_then_fail = 1
    code = plane.make_code()
    arguments = ("enroll", plane.url, "--no-wait", "--trust", "off", "--json")
    _one_line(await farhandd.call(*arguments, typed=code))
    ended = await farhandd.call(*arguments, typed=code)
    assert ended.status == 0, ended.stderr
    assert list(plane.machines) == [json.loads(ended.stdout)["machine_id"]]


async def test_the_code_never_reaches_a_file(plane: FakeControlPlane, farhandd: Farhandd) -> None:
    code = plane.make_code()
    await farhandd.call("enroll", plane.url, "--no-wait", "--trust", "off", typed=code)
    kept = [path for path in farhandd.home.iterdir() if path.is_file()]
    assert len(kept) >= 2
    for path in kept:
        assert code.encode() not in path.read_bytes()
