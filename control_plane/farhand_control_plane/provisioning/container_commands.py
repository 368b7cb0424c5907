"""The command lines by which Docker and Podman are told what to do. Pure.

Only what both understand alike; nothing of ours goes through a shell of this computer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from farhand_control_plane.provisioning.enrolling import enrol_arguments
from farhand_control_plane.provisioning.provisioner import Found

INSTANCE_LABEL: Final = "farhand.instance"
ENVIRONMENT_LABEL: Final = "farhand.environment"
DAEMON_HOME: Final = "/farhand/daemon"
WORK: Final = "/farhand/work"
_TMP: Final = "/farhand/tmp"
_FORMAT: Final = f'{{{{.Label "{ENVIRONMENT_LABEL}"}}}}\t{{{{.State}}}}'
_PIDS_MAX: Final = 4096
_STOP_S: Final = 20  # TERM to KILL of the container's first process: the daemon's own patience

# The first process of the container: waits for the enrolment that comes by `exec`, then becomes the
# daemon. It ends by itself after the lifetime, whoever is there to remove the container. Signals
# reach it through the engine's own init, which also buries what commands leave behind.
_KEEPER: Final = (
    "mkdir -p -m 700 $FARHAND_DAEMON_HOME $FARHAND_COMMANDS_HOME $TMPDIR"
    " && cd $FARHAND_COMMANDS_HOME || exit 1; (sleep $FARHAND_ENVIRONMENT_S; kill -INT 1) & "
    "while [ ! -e $FARHAND_DAEMON_HOME/identity.json ]; do sleep 0.2; done; exec farhandd run"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One environment as a container. ``engine``: the program, docker or podman or a path."""

    engine: str
    image: str
    instance_id: str
    environment_id: str

    @property
    def name(self) -> str:
        """By it an engine refuses a second one."""
        return f"farhand-{self.environment_id}"


def run(container: Container, *, machine_name: str, lifetime_s: float) -> list[str]:
    """Start it, waiting for its enrolment; prints the engine's own id."""
    return [
        *(container.engine, "run", "--detach", "--init"),
        *("--name", container.name, "--hostname", machine_name),
        *("--label", f"{INSTANCE_LABEL}={container.instance_id}"),
        *("--label", f"{ENVIRONMENT_LABEL}={container.environment_id}"),
        *("--security-opt", "no-new-privileges", "--pids-limit", str(_PIDS_MAX)),
        *("--stop-timeout", str(_STOP_S)),
        *("--env", f"FARHAND_DAEMON_HOME={DAEMON_HOME}"),
        *("--env", f"FARHAND_COMMANDS_HOME={WORK}"),
        *("--env", f"FARHAND_ENVIRONMENT_S={round(lifetime_s)}"),
        *("--env", f"TMPDIR={_TMP}"),
        *("--entrypoint", "/bin/sh", container.image, "-c", _KEEPER),
    ]


def write_machine_file(container: Container) -> list[str]:
    """Write standard input to the daemon's machine.toml."""
    script = f'umask 077; mkdir -p "{DAEMON_HOME}" && cat > "{DAEMON_HOME}/machine.toml"'
    return [container.engine, "exec", "--interactive", container.name, "/bin/sh", "-c", script]


def enrol(container: Container, url: str) -> list[str]:
    """Enrol the daemon inside; the code comes by standard input."""
    return [
        *(container.engine, "exec", "--interactive", container.name, "farhandd", "enroll"),
        *enrol_arguments(url),
    ]


def start(container: Container) -> list[str]:
    """Start a container that has stopped; one that runs stays as it is."""
    return [container.engine, "start", container.name]


def remove(container: Container) -> list[str]:
    """Remove it with its anonymous volumes, whether it runs or not."""
    return [container.engine, "rm", "--force", "--volumes", container.name]


def list_all(engine: str, instance_id: str) -> list[str]:
    """List our containers, stopped ones too: a line each, for ``parse_list``."""
    label = f"label={INSTANCE_LABEL}={instance_id}"
    return [engine, "ps", "--all", "--filter", label, "--format", _FORMAT]


def parse_list(output: str) -> Sequence[Found]:
    """Return what ``list_all`` printed."""
    rows = (line.split("\t") for line in output.splitlines() if line.strip())
    return [
        Found(environment_id=row[0], lives=row[-1].strip().lower() == "running")
        for row in rows
        if row[0]
    ]
