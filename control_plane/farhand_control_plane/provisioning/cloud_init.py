"""Set up a managed machine: the script that root runs once, also as user-data of cloud-init. Pure.

A managed machine has nobody at it: its daemon runs as an account of its own, root's file says what
it allows, the code comes by standard input, and people compare the six words that the script prints
(into the console log) with those that the control plane shows.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from farhand_control_plane.provisioning.machine_file import render_machine_file
from farhand_shared.errors import InvalidInput

ACCOUNT: Final = "farhand"
FOLDER: Final = "/var/lib/farhandd"
PRESET: Final = "/etc/farhandd/machine.toml"
UNIT: Final = "/etc/systemd/system/farhandd.service"
SCRIPT: Final = "/run/farhandd-set-up"
# What the script needs beside a shell; names as Debian, Ubuntu and Fedora have them.
_PACKAGES: Final = ("curl", "python3")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedMachine:
    """What a managed machine is given. Paths are where root may write."""

    url: str
    code: str
    expires_at: datetime
    account: str = ACCOUNT
    folder: str = FOLDER  # the account's HOME
    preset: str = PRESET
    unit: str = UNIT
    labels: Sequence[str] = field(default_factory=tuple)

    @property
    def daemon_home(self) -> str:
        return f"{self.folder}/daemon"

    @property
    def program(self) -> str:
        """Where the control plane's installer puts the daemon of this account."""
        return f"{self.folder}/.local/share/farhandd-program/current/bin/farhandd"


def render_preset(machine: ManagedMachine) -> str:
    """Return the machine.toml that root gives it: commands work beneath its account's work/."""
    return render_machine_file(
        [f"{machine.folder}/work"],
        why="A managed machine: this file is root's, the daemon reads it.",
        labels=machine.labels,
    )


def render_unit(machine: ManagedMachine) -> str:
    """Return the systemd unit of the machine's daemon, as `farhandd service install` has it.

    Beside that: it runs as the machine's account, and root's file lies over the one that the
    account could change.
    """
    for path in (machine.folder, machine.preset):
        if not path.isprintable() or any(character in path for character in ' "\\%$:'):
            raise InvalidInput(
                f"cannot make a unit for {path!r}: use a path of letters, digits, dots, dashes"
            )
    run = f"{machine.program} --home {machine.daemon_home} run"
    return f"""\
# Made by farhand machines add --managed.
[Unit]
Description=Farhand daemon of a managed machine
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
User={machine.account}
ExecStart={run}
Environment=HOME={machine.folder}
# The account cannot widen what root has allowed.
BindReadOnlyPaths={machine.preset}:{machine.daemon_home}/machine.toml
# Running commands outlive the daemon; the next one takes them over.
KillMode=process
KillSignal=SIGTERM
TimeoutStopSec=30
OOMPolicy=continue
Delegate=yes
DelegateSubgroup=farhandd-self
Restart=on-failure
RestartPreventExitStatus=2 3
RestartSec=5
RestartSteps=6
RestartMaxDelaySec=60

[Install]
WantedBy=multi-user.target
"""


def render_set_up(machine: ManagedMachine) -> str:
    """Return the script: run by root, or by the account itself where it may write everywhere.

    It may run again: what is there stays. The code is good for one machine and ten minutes.
    """
    q = shlex.quote
    return f"""\
#!/bin/sh
# Sets up a managed machine of the Farhand at {machine.url}; made by farhand machines add --managed.
# The code in it lets in one machine, until {machine.expires_at:%Y-%m-%d %H:%M} UTC. Run it as root.
set -eu
umask 022
account={q(machine.account)}
folder={q(machine.folder)}
daemon_home={q(machine.daemon_home)}
preset={q(machine.preset)}
unit={q(machine.unit)}
url={q(machine.url)}

# Run something as the machine's account. Proxies and pip's settings of this environment count.
as_account() {{
    set -- env -u XDG_DATA_HOME -u XDG_CONFIG_HOME -u XDG_RUNTIME_DIR HOME="$folder" "$@"
    [ "$(id -un)" = "$account" ] || set -- runuser -u "$account" -- "$@"
    "$@"
}}

id "$account" >/dev/null 2>&1 ||
    useradd --system --user-group --home-dir "$folder" --shell /bin/sh "$account"
mkdir -p "$folder" "$(dirname "$preset")" "$(dirname "$unit")"
[ "$(id -un)" = "$account" ] || chown "$account:" "$folder"
chmod 0700 "$folder"
as_account mkdir -p "$daemon_home" "$folder/work"
chmod 0700 "$daemon_home" 2>/dev/null || as_account chmod 0700 "$daemon_home"

cat >"$preset" <<'END_OF_FILE'
{render_preset(machine)}END_OF_FILE
chmod 0644 "$preset"
# Until the unit lays root's file over it, enrolment reads this copy.
cp "$preset" "$daemon_home/machine.toml"

curl -fsS --retry 5 --retry-connrefused -o "$folder/install.sh" "$url/install.sh"
chmod 0644 "$folder/install.sh"
as_account sh "$folder/install.sh" --home "$daemon_home" --code-stdin --no-run <<'END_OF_CODE'
{machine.code}
END_OF_CODE
rm -f "$folder/install.sh"

cat >"$unit" <<'END_OF_FILE'
{render_unit(machine)}END_OF_FILE
chmod 0644 "$unit"
if [ -d /run/systemd/system ] && [ "$(id -u)" = 0 ]; then
    systemctl daemon-reload
    systemctl enable --now "$(basename "$unit")"
else
    echo "no systemd is in charge here; run as $account: {machine.program} --home $daemon_home run"
fi
"""


def render_user_data(machine: ManagedMachine) -> str:
    """Return cloud-init's user-data, which runs the script once, at the first start."""
    script = "".join(
        f"      {line}".rstrip() + "\n" for line in render_set_up(machine).splitlines()
    )
    packages = "".join(f"  - {name}\n" for name in _PACKAGES)
    return f"""\
#cloud-config
# A managed machine of the Farhand at {machine.url}. Start it before
# {machine.expires_at:%Y-%m-%d %H:%M} UTC: then the code in it ends. Do not keep this file.
package_update: true
packages:
{packages}write_files:
  - path: {SCRIPT}
    owner: root:root
    permissions: '0700'
    content: |
{script}runcmd:
  - [{SCRIPT}]
  - [rm, -f, {SCRIPT}]
"""
