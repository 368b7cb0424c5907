"""Render the systemd unit of a daemon, for an account or for the whole system. Pure."""

from farhand_daemon.service.spec import EXIT_MISUSE, EXIT_NOT_WANTED, ServiceSpec
from farhand_daemon.supervisor.cgroup_base import SUBGROUP
from farhand_shared.errors import InvalidInput

# A path as the first word of ExecStart has rules of its own (prefixes, no variables, and SELinux
# does not let systemd execute what lies in a home). A fixed shell has none of these problems, and
# it becomes the daemon: pid, signals and notifications are the daemon's.
_SHELL = '/bin/sh -c \'exec "$$0" "$$@"\''
_LINGER_MARK = "Linger=ours"


def render_unit(spec: ServiceSpec) -> str:
    """Return the text of the unit; InvalidInput where a path cannot stand in one."""
    wants = (
        ("Wants=network-online.target", "After=network-online.target") if spec.for_system else ()
    )
    environment = dict(spec.environment)
    if spec.for_system:  # the system's manager gives services no HOME
        environment["HOME"] = str(spec.account_home)
    lines = (
        "# Written by farhandd service install; farhandd service remove takes it away.",
        "[Unit]",
        "Description=Farhand daemon, runs commands on this machine",
        *wants,
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        f"ExecStart={_SHELL} {' '.join(quoted(word) for word in spec.arguments)}",
        *(f"Environment={quoted_value(f'{k}={v}')}" for k, v in sorted(environment.items())),
        # Running commands outlive the daemon; the next one takes them over.
        "KillMode=process",
        "KillSignal=SIGTERM",
        "TimeoutStopSec=30",
        # One command out of memory must not take the others and the daemon with it.
        "OOMPolicy=continue",
        # The control group is ours to divide among commands. The daemon is one level below it: a
        # group that hands memory and pids down may hold no process itself, and without the level
        # systemd could not start the daemon again while commands run (EBUSY). systemd before 254
        # does not know it, and then groups limit nothing.
        "Delegate=yes",
        f"DelegateSubgroup={SUBGROUP}",
        "Restart=on-failure",
        f"RestartPreventExitStatus={EXIT_MISUSE} {EXIT_NOT_WANTED}",
        "RestartSec=5",
        # From 5 s to a minute; systemd before 254 does not know these two and stays at 5 s.
        "RestartSteps=6",
        "RestartMaxDelaySec=60",
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if spec.for_system else 'default.target'}",
        *(("", "[X-Farhand]", _LINGER_MARK) if spec.linger_is_ours else ()),
    )
    return "\n".join(lines) + "\n"


def says_linger_is_ours(unit: str) -> bool:
    """Tell whether a unit that was rendered here notes that we turned lingering on."""
    return _LINGER_MARK in unit.splitlines()


def settings_of(unit: str) -> dict[str, str]:
    """Return the settings of a unit that have an effect, without what differs by installation."""
    pairs = (
        line.partition("=")
        for line in unit.splitlines()
        if "=" in line and not line.startswith("#")
    )
    return {key: value for key, _, value in pairs if key not in ("Environment", "Linger")}


def quoted(word: str) -> str:
    """Return one word of a command line: neither specifier, variable nor quote is left in it."""
    return quoted_value(word).replace("$", "$$")


def quoted_value(text: str) -> str:
    """Return one assignment of Environment=, where ``$`` means nothing."""
    if not text.isprintable():
        raise InvalidInput(
            f"cannot make a service of {text!r}: it holds a character that no unit may hold; "
            "use a folder with a printable name"
        )
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
