"""What Docker and Podman are told, word by word; and that Docker's own parser takes it."""

import shutil
import subprocess

import pytest

from farhand_control_plane.provisioning import container_commands as commands
from farhand_control_plane.provisioning.provisioner import Found

CONTAINER = commands.Container(
    engine="docker", image="farhand/environment:1", instance_id="i-1", environment_id="e-1"
)
RUN = commands.run(CONTAINER, machine_name="env-1", lifetime_s=3600.4)
ALL = {
    "run": RUN,
    "write": commands.write_machine_file(CONTAINER),
    "enrol": commands.enrol(CONTAINER, "http://10.0.0.1:8080"),
    "start": commands.start(CONTAINER),
    "remove": commands.remove(CONTAINER),
    "list": commands.list_all("docker", "i-1"),
}


def test_a_container_is_run_apart_and_known_by_its_labels() -> None:
    assert RUN[:-1] == [
        *("docker", "run", "--detach", "--init"),
        *("--name", "farhand-e-1", "--hostname", "env-1"),
        *("--label", "farhand.instance=i-1", "--label", "farhand.environment=e-1"),
        *("--security-opt", "no-new-privileges", "--pids-limit", "4096", "--stop-timeout", "20"),
        *("--env", "FARHAND_DAEMON_HOME=/farhand/daemon"),
        *("--env", "FARHAND_COMMANDS_HOME=/farhand/work"),
        *("--env", "FARHAND_ENVIRONMENT_S=3600", "--env", "TMPDIR=/farhand/tmp"),
        *("--entrypoint", "/bin/sh", "farhand/environment:1", "-c"),
    ]


def test_what_runs_in_it_is_a_script_that_any_shell_takes() -> None:
    done = subprocess.run(["/bin/sh", "-n", "-c", RUN[-1]], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert RUN[-1].endswith("exec farhandd run")


def test_the_code_is_in_no_command_line() -> None:
    assert ALL["enrol"] == [
        *("docker", "exec", "--interactive", "farhand-e-1", "farhandd", "enroll"),
        *("http://10.0.0.1:8080", "--code-stdin", "--json", "--no-wait"),
    ]
    assert ALL["remove"] == ["docker", "rm", "--force", "--volumes", "farhand-e-1"]
    assert ALL["start"] == ["docker", "start", "farhand-e-1"]


def test_the_list_says_which_of_ours_live() -> None:
    assert ALL["list"] == [
        *("docker", "ps", "--all", "--filter", "label=farhand.instance=i-1"),
        *("--format", '{{.Label "farhand.environment"}}\t{{.State}}'),
    ]
    printed = "e-1\trunning\ne-2\tExited\n\te-3\n\n"
    assert commands.parse_list(printed) == [
        Found(environment_id="e-1", lives=True),
        Found(environment_id="e-2", lives=False),
    ]


@pytest.mark.parametrize("name", ALL)
def test_dockers_own_parser_takes_the_options(name: str) -> None:
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("no docker command line is installed here")
    done = subprocess.run(
        [docker, *ALL[name][1:]],
        capture_output=True,
        text=True,
        check=False,
        env={"DOCKER_HOST": "tcp://127.0.0.1:1", "PATH": "/usr/bin:/bin"},
        timeout=30,
    )
    assert done.returncode != 0
    assert "annot connect to the Docker daemon" in done.stderr, "parsed, and then no engine"
