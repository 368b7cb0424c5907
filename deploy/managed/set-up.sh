#!/bin/sh
# Sets up a managed machine of the Farhand at https://farhand.example.org; made by farhand machines add --managed.
# The code in it lets in one machine, until 2030-01-02 03:04 UTC. Run it as root.
set -eu
umask 022
account=farhand
folder=/var/lib/farhandd
daemon_home=/var/lib/farhandd/daemon
preset=/etc/farhandd/machine.toml
unit=/etc/systemd/system/farhandd.service
url=https://farhand.example.org

# Run something as the machine's account. Proxies and pip's settings of this environment count.
as_account() {
    set -- env -u XDG_DATA_HOME -u XDG_CONFIG_HOME -u XDG_RUNTIME_DIR HOME="$folder" "$@"
    [ "$(id -un)" = "$account" ] || set -- runuser -u "$account" -- "$@"
    "$@"
}

id "$account" >/dev/null 2>&1 ||
    useradd --system --user-group --home-dir "$folder" --shell /bin/sh "$account"
mkdir -p "$folder" "$(dirname "$preset")" "$(dirname "$unit")"
[ "$(id -un)" = "$account" ] || chown "$account:" "$folder"
chmod 0700 "$folder"
as_account mkdir -p "$daemon_home" "$folder/work"
chmod 0700 "$daemon_home" 2>/dev/null || as_account chmod 0700 "$daemon_home"

cat >"$preset" <<'END_OF_FILE'
# A managed machine: this file is root's, the daemon reads it.
# Only this file decides what may run; the control plane cannot widen it.
trust_level = "trusted"
chosen_by = "preset"
roots = ["/var/lib/farhandd/work"]
allow_inferred = false
labels = ["build", "team=infra"]
END_OF_FILE
chmod 0644 "$preset"
# Until the unit lays root's file over it, enrolment reads this copy.
cp "$preset" "$daemon_home/machine.toml"

curl -fsS --retry 5 --retry-connrefused -o "$folder/install.sh" "$url/install.sh"
chmod 0644 "$folder/install.sh"
as_account sh "$folder/install.sh" --home "$daemon_home" --code-stdin --no-run <<'END_OF_CODE'
FH1-THE-CODE-OF-THIS-MACHINE
END_OF_CODE
rm -f "$folder/install.sh"

cat >"$unit" <<'END_OF_FILE'
# Made by farhand machines add --managed.
[Unit]
Description=Farhand daemon of a managed machine
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
User=farhand
ExecStart=/var/lib/farhandd/.local/share/farhandd-program/current/bin/farhandd --home /var/lib/farhandd/daemon run
Environment=HOME=/var/lib/farhandd
# The account cannot widen what root has allowed.
BindReadOnlyPaths=/etc/farhandd/machine.toml:/var/lib/farhandd/daemon/machine.toml
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
END_OF_FILE
chmod 0644 "$unit"
if [ -d /run/systemd/system ] && [ "$(id -u)" = 0 ]; then
    systemctl daemon-reload
    systemctl enable --now "$(basename "$unit")"
else
    echo "no systemd is in charge here; run as $account: /var/lib/farhandd/.local/share/farhandd-program/current/bin/farhandd --home $daemon_home run"
fi
