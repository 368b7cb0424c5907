"""`farhand exec`: a command on a machine as if it ran here."""

import hashlib
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.e2e.system import Running, System, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def here(up: Running, system: System) -> str:
    return str(json.loads((system.home / "local.json").read_text())["machine_name"])


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["true"], 0),
        (["false"], 1),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "exit 255"], 255),
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -TERM $$"], 143),
    ],
)
def test_it_exits_as_the_command_did(
    system: System, here: str, command: list[str], status: int
) -> None:
    assert system.farhand("exec", here, "--", *command).status == status


def test_a_timeout_is_124(system: System, here: str) -> None:
    done = system.farhand("exec", "--timeout", "0.3", here, "--", "sleep", "60")
    assert done.status == 124


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no machine is named"),
        (["HERE"], "--"),
        (["HERE", "true"], "--"),
        (["HERE", "--"], "no command"),
        (["--shell", "HERE", "--", "a", "b"], "one string"),
        (["--timeout", "soon", "HERE", "--", "true"], "--timeout"),
        (["--env", "X", "HERE", "--", "true"], "NAME=VALUE"),
        (["--tty", "HERE", "--", "true"], "--tty is unknown"),
        (["nowhere", "--", "true"], "'nowhere'"),
        (["--cwd", "/no/such", "HERE", "--", "true"], "/no/such"),
        (["--cwd", "/usr", "HERE", "--", "true"], "/usr"),
    ],
)
def test_our_own_failures_are_125_in_one_line(
    system: System, here: str, arguments: list[str], said: str
) -> None:
    done = system.farhand("exec", *[here if one == "HERE" else one for one in arguments])
    assert done.status == 125
    assert done.stdout == b""
    assert done.err.startswith("farhand: cannot ")
    assert done.err.count("\n") == 1
    assert said in done.err


def test_both_outputs_come_apart_and_byte_for_byte(system: System, here: str) -> None:
    script = r"printf '\000\377\n\r\033[31m' ; printf 'err\000\200' >&2"
    done = system.farhand("exec", "--shell", here, "--", script)
    assert done.stdout == b"\x00\xff\n\r\x1b[31m"
    assert done.stderr == b"err\x00\x80"


def test_arguments_arrive_byte_for_byte(system: System, here: str) -> None:
    odd: list[str | bytes] = [
        "",
        " ",
        "a b",
        "$HOME",
        "'",
        '"',
        "\\",
        "*",
        "--",
        "-x",
        b"\xff\xfe",
        "ü",
    ]
    done = system.farhand("exec", here, "--", "printf", "%s\\0", *odd)
    assert done.stdout.split(b"\0")[:-1] == [
        one if isinstance(one, bytes) else one.encode() for one in odd
    ]


def test_environment_and_directory_are_what_was_asked(system: System, here: str) -> None:
    folder = system.folder / "some dir"
    folder.mkdir(exist_ok=True)
    os.chown(folder, system.user.uid, system.user.gid)
    done = system.farhand(
        "exec", "--cwd", str(folder), "--env", "GREETING=hi there", "--env=EMPTY=", here,
        "--", "sh", "-c", 'pwd; echo "$GREETING/$EMPTY/"',
    )  # fmt: skip
    assert done.out == f"{folder}\nhi there//\n"


def test_limits_hold_on_the_machine_and_the_one_that_was_reached_is_named(
    system: System, here: str
) -> None:
    program = "kept = [open('/dev/null') for _ in range(100)]"
    done = system.farhand(
        "exec",
        "--open-files",
        "64",
        "--memory",
        "256M",
        here,
        "--",
        str(system.bin / "python"),
        "-c",
        program,
    )
    assert done.status == 1
    assert "Too many open files" in done.err
    assert "farhand: the limit of 64 open files was reached; ask with more\n" in done.err


def test_who_wanted_input_is_told_that_it_had_none(system: System, here: str) -> None:
    done = system.farhand("exec", here, "--", str(system.bin / "python"), "-c", "input('name? ')")
    assert (done.status, done.stdout) == (1, b"name? ")
    assert "farhand: it seems to have wanted input, and it has none" in done.err


def test_much_output_comes_whole(system: System, here: str) -> None:
    count = 30_000_000
    script = f"head -c {count} /dev/zero | base64 -w 76"
    done = system.farhand("exec", "--shell", here, "--", script)
    local = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
    assert done.status == 0, done.err
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(local).digest()


def test_a_command_of_3_mb_is_refused_by_item_size_and_limit(system: System, here: str) -> None:
    """Longer than a command line may be: sent as the API takes it."""
    url = json.loads((system.home / "local.json").read_text())["url"]
    token = (system.home / "token").read_text().strip()
    body = json.dumps({"machine": here, "argv": ["echo", "x" * 3_000_000]})
    script = (
        "import sys, urllib.request as u\n"
        "r = u.Request(sys.argv[1], data=sys.stdin.buffer.read(), method='POST',"
        " headers={'Authorization': 'Bearer ' + sys.argv[2]})\n"
        "sys.stdout.buffer.write(u.urlopen(r).read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, f"{url}/v1/exec", token],
        input=body.encode(),
        capture_output=True,
        check=True,
    )
    assert b"3,000,0" in done.stdout
    assert b"131,072" in done.stdout or b"131,071" in done.stdout  # Linux: one argument
    assert b"Traceback" not in done.stdout


def test_ctrl_c_stops_the_command_and_exits_130(system: System, here: str) -> None:
    marker = f"{os.urandom(4).hex()}"
    running = system.start(
        "farhand", "exec", "--shell", here, "--", f"echo started; exec sleep 1000 # {marker}"
    )
    running.wait_for("started")
    running.process.send_signal(signal.SIGINT)
    assert running.ended() == 130
    until(
        "the command is gone",
        lambda: not any("sleep 1000" in line for line in system.processes().values()),
    )


def test_the_end_of_a_pipe_stops_the_command(system: System, here: str) -> None:
    read, write = os.pipe()
    process = subprocess.Popen(
        [system.bin / "farhand", "exec", here, "--", "yes", "canary-pipe"],
        stdout=write,
        stderr=subprocess.PIPE,
        env=system.environment(),
        cwd=system.folder,
        **system.user.options(),
    )
    os.close(write)
    assert os.read(read, 11) == b"canary-pipe"
    os.close(read)
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert b"Traceback" not in said
    until(
        "the command is gone",
        lambda: not any("canary-pipe" in line for line in system.processes().values()),
    )


def test_it_resumes_where_it_was_when_the_server_is_killed(
    system: System, up: Running, here: str
) -> None:
    count = 60
    running = system.start(
        "farhand", "exec", "--shell", here, "--",
        f"for i in $(seq {count}); do echo line $i; sleep 0.1; done",
    )  # fmt: skip
    running.wait_for("line 5")
    os.kill(system.pid_of("server"), signal.SIGKILL)
    assert running.ended() == 0, running.text
    assert running.out == [f"line {number}" for number in range(1, count + 1)], running.text
    up.wait_for("server ready again")


def test_help_names_every_option_and_none_that_is_not_there(system: System) -> None:
    text = system.farhand("exec", "--help").out
    options = "shell stdin pty cwd timeout env memory processes open-files wait-offline attach take"
    for option in options.split():
        assert f"--{option}" in text
    assert "--tty" not in text


def test_hot_verbs_import_nothing_slow(system: System, here: str) -> None:
    code = (
        "import sys, atexit\n"
        "from farhand_control_plane.cli.main import main\n"
        "status = main(sys.argv[1:])\n"
        "slow = {'typer', 'httpx', 'pydantic', 'rich', 'fastapi', 'psycopg', 'grpc', 'asyncio',"
        " 'click', 'openai'} & set(sys.modules)\n"
        "print('slow:', sorted(slow), file=sys.stderr)\n"
        "sys.exit(status)\n"
    )
    for arguments in (["exec", here, "--", "true"], ["--version"], ["exec", "--help"]):
        done = system.run("python", "-c", code, *arguments)
        assert done.status == 0, done.err
        assert "slow: []" in done.err, (arguments, done.err)
