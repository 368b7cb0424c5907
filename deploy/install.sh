#!/bin/sh
# Make this computer a machine of the Farhand at @URL@: install its daemon, enrol it, let systemd
# or launchd run it. Where neither does, as in most containers, the daemon runs in the foreground.
#
#     curl -fsSL @URL@/install.sh | sh
#     curl -fsSL @URL@/install.sh | sh -s -- --home DIR      for another machine on this computer
#     curl -fsSL @URL@/install.sh | sh -s -- --no-service    in the foreground in any case
#     sh install.sh --code-stdin --no-run <CODE              nobody is asked, something else runs it
#
# Needs Python 3.11 or newer; what the daemon depends on comes from there too, by its hash. Writes
# into your data folder, a unit of your account (as root: of the computer), and a link in
# ~/.local/bin; all of it goes with "farhandd uninstall". Again, it brings the daemon up to date and
# leaves the machine as it is. On Windows run it inside WSL.
# A template: the control plane fills in its address and the hashes of what it gives.

set -eu
umask 022

url='@URL@'
daemon_wheel='@DAEMON_WHEEL@'
daemon_sha256='@DAEMON_SHA256@'
pip_wheel='@PIP_WHEEL@'
pip_sha256='@PIP_SHA256@'
requirements_sha256='@REQUIREMENTS_SHA256@'

say() {
    printf 'farhand: %s\n' "$*"
}

die() {
    printf 'farhand: %s\n' "$*" >&2
    exit 1
}

# Whatever was begun is ended, and nothing half-done is left to be mistaken for done.
clean_up() {
    _status=$?
    [ -z "$dots" ] || kill "$dots" 2>/dev/null || :
    [ -z "$work" ] || rm -rf "$work"
    exit "$_status"
}

read_options() {
    home= service=yes code_stdin= run=yes
    while [ $# -gt 0 ]; do
        case $1 in
        --home)
            [ $# -ge 2 ] && [ -n "$2" ] || misuse "--home needs a folder"
            home=$2
            shift
            ;;
        --home=)
            misuse "--home needs a folder"
            ;;
        --home=*) home=${1#--home=} ;;
        --no-service) service= ;;
        --code-stdin) code_stdin=yes ;;
        --no-run) run= ;;
        *) misuse "$1 is not understood; there are --home DIR, --no-service, --code-stdin, --no-run" ;;
        esac
        shift
    done
    case $home in
    '' | /*) ;;
    *) home=$PWD/$home ;;
    esac
}

misuse() {
    printf 'farhand: cannot tell what to do: %s\n' "$*" >&2
    exit 2
}

find_python() {
    # Apple's python3 only offers to install one, in a window, where the developer tools are missing.
    _stub=
    [ "$system" != Darwin ] || xcode-select -p >/dev/null 2>&1 || _stub=/usr/bin/python3
    _seen=
    for _candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 \
        /opt/homebrew/bin/python3 /usr/local/bin/python3; do
        _path=$(command -v "$_candidate" 2>/dev/null) && [ "$_path" != "$_stub" ] || continue
        _version=$("$_path" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' \
            2>/dev/null </dev/null) || continue
        case $_version in
        3.[0-9].* | 3.10.* | [012].*) _seen="${_seen:-$_candidate is $_version}" ;;
        *)
            python=$_path
            return 0
            ;;
        esac
    done
    die "cannot find Python 3.11 or newer: ${_seen:-no python3 on PATH}; $(how_to_get_python)," \
        "or set PYTHON to the path of one, and run this again"
}

how_to_get_python() {
    if [ "$system" = Darwin ]; then
        echo "get it from python.org or with: brew install python"
    elif command -v apt-get >/dev/null 2>&1; then
        echo "get it with: apt-get install python3"
    elif command -v dnf >/dev/null 2>&1; then
        echo "get it with: dnf install python3"
    else
        echo "install it"
    fi
}

# Download $1 of this server to the file $2, whose SHA-256 is to be $3.
fetch() {
    if command -v curl >/dev/null 2>&1; then
        curl -fsS --retry 3 -o "$2" "$url/dist/$1" 2>"$log" </dev/null || not_fetched "$1"
    elif command -v wget >/dev/null 2>&1; then
        wget -q -O "$2" "$url/dist/$1" 2>"$log" </dev/null || not_fetched "$1"
    else
        "$python" -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' \
            "$url/dist/$1" "$2" 2>"$log" </dev/null || not_fetched "$1"
    fi
    _sha256=$("$python" -c 'import hashlib, sys
print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$2")
    [ "$_sha256" = "$3" ] ||
        die "cannot use $1: it is not what the server announced (a new version came meanwhile," \
            "or somebody is in between); run the line again"
}

not_fetched() {
    die "cannot download $1 from $url: $(last_line); check the network, and run the line again"
}

last_line() {
    _line=$(tail -n 1 "$log" 2>/dev/null) || _line=
    printf '%s' "${_line:-no reason was given}"
}

# The program lies in a folder named after its wheel: a daemon that runs keeps the version that it
# was started with, and an installation that was broken off is begun anew.
install_daemon() {
    if [ -f "$environment/complete" ] && "$farhandd" --version >/dev/null 2>&1 </dev/null; then
        say "this version is installed already, in $environment"
        return 0
    fi
    installed_now=--restart
    say "installing the daemon into $environment; half a minute"
    fetch "$daemon_wheel" "$work/$daemon_wheel" "$daemon_sha256"
    fetch "$pip_wheel" "$work/$pip_wheel" "$pip_sha256"
    rm -rf "$environment"
    "$python" -m venv --without-pip "$environment" >"$log" 2>&1 </dev/null ||
        die "cannot make an environment with $python: $(last_line); install the complete Python" \
            "(Debian: apt-get install python3), and run this again"
    # Debian's Python has neither pip nor ensurepip: pip comes along, and does not stay.
    "$python" -m zipfile -e "$work/$pip_wheel" "$work/pip" >"$log" 2>&1 </dev/null ||
        die "cannot unpack pip into $work: $(last_line); is the disk full?"
    if [ -t 1 ]; then # a sign of life
        (while sleep 2; do printf .; done) &
        dots=$!
    fi
    _installed=yes
    pip_installs || _installed=
    if [ -n "$dots" ]; then
        kill "$dots" 2>/dev/null || :
        dots=
        echo
    fi
    [ -n "$_installed" ] || pip_failed
    "$farhandd" --version >"$log" 2>&1 </dev/null ||
        die "cannot start the daemon: $(last_line); details: $log"
    : >"$environment/complete"
}

# The server gives the dependencies too, each named by its hash; where it reaches no package index,
# this computer's own is asked for the same files. An index that a person has set is theirs to trust.
pip_installs() {
    if [ -n "${PIP_INDEX_URL:-}${PIP_NO_INDEX:-}${PIP_FIND_LINKS:-}" ] ||
        [ -z "$requirements_sha256" ]; then
        pip_install "$work/$daemon_wheel"
        return
    fi
    fetch requirements.lock "$work/requirements.lock" "$requirements_sha256"
    _host=${url#*://}
    # Patience: the server fetches what it was not asked for before.
    pip_install --no-deps --require-hashes -r "$work/requirements.lock" \
        --retries 1 --timeout 120 --index-url "$url/updates/index" \
        --trusted-host "${_host%%/*}" ||
        pip_install --no-deps --require-hashes -r "$work/requirements.lock" || return 1
    pip_install --no-deps --no-index "$work/$daemon_wheel"
}

pip_install() {
    PYTHONPATH=$work/pip PIP_USER=0 "$environment/bin/python" -m pip install --no-input \
        --disable-pip-version-check --no-warn-script-location --progress-bar off \
        --only-binary :all: "$@" >"$log" 2>&1 </dev/null
}

pip_failed() {
    if grep -q -e 'NewConnectionError' -e 'Failed to establish a new connection' \
        -e 'Failed to resolve' -e 'name resolution' -e 'ConnectTimeout' \
        -e 'Network is unreachable' -e 'Cannot connect to proxy' "$log"; then
        die "cannot install the dependencies: the package index was not reached;" \
            "check the network (or PIP_INDEX_URL, HTTPS_PROXY), and run this again; details: $log"
    fi
    if grep -q 'No space left on device' "$log"; then
        die "cannot install the dependencies: the disk is full; free 200 MB for $environment"
    fi
    _missing=$(sed -n 's/^ERROR: No matching distribution found for \([A-Za-z0-9_.-]*\).*/\1/p' "$log")
    if [ -n "$_missing" ]; then
        die "cannot install $_missing: the package index has none that fits $python on" \
            "$system $(uname -m); try another Python (PYTHON=/path/to/python3); details: $log"
    fi
    _reason=$(sed -n 's/^ERROR: //p' "$log" | head -n 1)
    die "cannot install the dependencies: ${_reason:-pip failed}; details: $log"
}

# Switch to this version; the one before stays as the way back ("farhandd update --rollback").
make_current() {
    "$python" -c 'import os, sys
folder, new = sys.argv[1:]
current, previous = (os.path.join(folder, name) for name in ("current", "previous"))
def point(link, to):
    if os.path.lexists(link + ".new"):
        os.unlink(link + ".new")
    os.symlink(to, link + ".new")
    os.replace(link + ".new", link)
old = os.readlink(current) if os.path.islink(current) else new
if old != new and os.path.exists(os.path.join(old, "complete")):
    point(previous, old)
point(current, new)' "$programs" "$environment"
}

# Remove versions that nobody runs or may go back to. Without ps nobody knows, and they stay.
remove_old() {
    ps -eww -o args >"$work/running" 2>/dev/null </dev/null || return 0
    for _old in "$programs"/*/; do
        _old=${_old%/}
        case $_old in
        "$environment" | "$work" | "$current" | "$programs/previous" | "$programs/*") continue ;;
        esac
        [ ! "$_old" -ef "$programs/previous" ] || continue
        grep -qF "$_old/" "$work/running" || rm -rf "$_old"
    done
}

# Tell whose machine this home is: known_url, known_name, known_bye, known_pid, known_home;
# known_url is empty when it is nobody's.
read_status() {
    known_url= known_name= known_bye= known_pid= known_home=
    _status=$("$farhandd" "$@" status --json --ask 2>/dev/null </dev/null) || return 0
    _lines=$("$environment/bin/python" -c 'import json, sys
status = json.loads(sys.argv[1])
said = status.get("server_says", "")  # a machine that was refused learns it only by asking
bye = said if said in ("revoked", "quarantined") else "" if said == "active" else status["bye"]
print(status["url"], status["name"], bye, status["pid"] or "", status["home"], sep="\n")
' "$_status")
    {
        read -r known_url
        read -r known_name
        read -r known_bye
        read -r known_pid
        IFS= read -r known_home
    } <<LINES
$_lines
LINES
}

# Make it a machine, unless it is one. $@ is --home DIR or nothing.
enrol() {
    read_status "$@"
    _force=
    case $known_bye in
    revoked | quarantined)
        say "$known_name was $known_bye: it is enrolled anew"
        _force=--force
        ;;
    *)
        if [ "$known_url" = "$url" ]; then
            say "this computer is $known_name already"
            return 0
        elif [ -n "$known_url" ]; then
            die "cannot enrol: this computer is $known_name of $known_url already; for another" \
                "machine here: curl -fsSL $url/install.sh | sh -s -- --home DIR"
        fi
        ;;
    esac
    [ -z "$known_pid" ] ||
        die "cannot enrol: a daemon (pid $known_pid) still runs there; stop it, and run this again"
    if [ -n "$code_stdin" ]; then # the script is a file; whoever ran it knows what is trusted
        "$farhandd" "$@" enroll $_force --code-stdin --no-wait --by-installer "$url"
        return 0
    fi
    # Our own input is the script, so the code is read from the terminal itself.
    if ! (: </dev/tty) 2>/dev/null; then
        die "cannot enrol: there is no terminal to type the code on; the daemon is installed, go on" \
            "with: $(quoted "$current/bin/farhandd") enroll $url$(home_option)"
    fi
    "$farhandd" "$@" enroll $_force --by-installer "$url" </dev/tty
}

# Remember whom the program is there for: "uninstall" removes it with the last of them.
remember_home() {
    [ -n "$known_home" ] || read_status "$@"
    [ -n "$known_home" ] || return 0
    grep -qxF -e "$known_home" "$programs/homes" 2>/dev/null ||
        printf '%s\n' "$known_home" >>"$programs/homes"
}

# Put farhandd where people's PATH finds it. What lies there and is not ours stays.
link_program() {
    _link=$HOME/.local/bin/farhandd
    [ ! -e "$_link" ] && [ ! -L "$_link" ] || return 0
    mkdir -p "$HOME/.local/bin" 2>/dev/null && ln -s "$current/bin/farhandd" "$_link" 2>/dev/null ||
        return 0
}

# Let the service manager run the daemon; fail where there is none, with the reason in no_service.
start_service() {
    _status=0
    # By the link, which updates move: the unit then needs no other text.
    "$current/bin/farhandd" "$@" service install $installed_now >"$programs/service.log" 2>&1 \
        </dev/null || _status=$?
    _said=$(cat "$programs/service.log")
    rm -f "$programs/service.log"
    case $_status in
    0)
        printf '%s\n' "$_said" | sed 's/^/farhand: /'
        say "see it with: $(quoted "$current/bin/farhandd") status$(home_option)" \
            "(remove everything with: $(quoted "$current/bin/farhandd") uninstall$(home_option))"
        ;;
    4)
        no_service=${_said#*: cannot make a service: }
        no_service=${no_service%[,;]*run the daemon in the foreground with farhandd run}
        return 1
        ;;
    *) die "${_said#farhandd: }; or run the line again with: | sh -s -- --no-service$(home_option)" ;;
    esac
}

home_option() {
    [ -z "$home" ] || printf ' --home %s' "$(quoted "$home")"
}

quoted() {
    case $1 in
    *[!A-Za-z0-9_./@%+=:,-]*) printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")" ;;
    *) printf %s "$1" ;;
    esac
}

main() {
    dots= work= installed_now= no_service=
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    read_options "$@"
    # What would make Python or pip work on something other than our environment.
    unset PYTHONHOME PYTHONPATH PYTHONSTARTUP PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
    system=$(uname -s)
    find_python
    [ -n "${HOME:-}" ] || HOME=$("$python" -c 'import os.path; print(os.path.expanduser("~"))')
    export HOME
    case $system in
    Darwin) data=$HOME/Library/Application\ Support ;;
    *) data=${XDG_DATA_HOME:-$HOME/.local/share} ;;
    esac
    programs=$data/farhandd-program
    current=$programs/current
    environment=$programs/$(printf %s "$daemon_sha256" | cut -c 1-16)
    farhandd=$environment/bin/farhandd
    log=$programs/install.log
    mkdir -p "$programs" 2>/dev/null && [ -w "$programs" ] ||
        die "cannot write $programs: make it writable for $(id -un), or set XDG_DATA_HOME to a" \
            "folder that is"
    if ! mkdir "$programs/installing" 2>/dev/null; then
        _other=$(cat "$programs/installing/pid" 2>/dev/null) || _other=
        if [ -n "$_other" ] && kill -0 "$_other" 2>/dev/null; then
            die "cannot install: another installation (pid $_other) is at work in $programs; wait" \
                "for it"
        fi
        rm -rf "$programs/installing"
        mkdir "$programs/installing" || die "cannot write $programs: try again"
    fi
    work=$programs/installing
    echo $$ >"$work/pid"

    install_daemon
    make_current
    remove_old
    rm -rf "$work"
    work=

    set --
    [ -z "$home" ] || set -- --home "$home"
    enrol "$@"
    remember_home "$@"
    link_program
    if [ -z "$run" ]; then
        say "the daemon is installed and enrolled; nothing runs it yet"
        return 0
    fi
    _run="$(quoted "$current/bin/farhandd") run$(home_option)"
    _why= _of_service=
    "$farhandd" "$@" service status >/dev/null 2>&1 </dev/null && _of_service=yes
    if [ -n "$known_pid" ] && [ -z "$_of_service" ]; then
        say "its daemon runs (pid $known_pid), with the version that it was started with;" \
            "to change to this one, stop it and start it with: $_run"
        return 0
    fi
    if [ -n "$_of_service" ] || [ -n "$service" ]; then
        ! start_service "$@" || return 0
        _why="no service is made: $no_service; "
    fi
    say "${_why}the daemon runs until Ctrl-C; to start it again: $_run"
    exec "$farhandd" "$@" run </dev/null
}

# Last, so that half a download does nothing.
main "$@"
