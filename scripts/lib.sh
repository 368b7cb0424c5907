# Sourced by scripts/up, scripts/test and scripts/check: finds the checkout and keeps .venv current.
# POSIX sh only. The caller has set `program` (its name in messages) and `here` (its folder);
# afterwards `root` is the checkout. The working directory is left alone.

die() {
    printf '%s: %s\n' "$program" "$*" >&2
    exit 1
}

root=$(CDPATH='' cd -- "$here/.." && pwd -P) || die "cannot find the checkout above $here"
venv=$root/.venv

# Variables that would make Python or pip work on something other than .venv.
unset PYTHONHOME PYTHONPATH PYTHONSTARTUP PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV

# True when .venv was installed from these very files, for this path, with this interpreter.
# It compares contents, as environment.py wrote them, without starting Python: a warm start
# pays a few milliseconds. $1 is `up` or `test`.
_is_current() {
    [ -f "$venv/installed-$1" ] && [ -x "$venv/bin/python" ] || return 1
    {
        printf '%s\n%s\n' "$root" "$(readlink -f "$venv/bin/python")"
        cat "$root/pyproject.toml" "$root/endpoint_daemon/pyproject.toml" \
            "$root/shared/farhand_shared/version.py"
    } | cmp -s - "$venv/installed-$1"
}

# Byte code for our modules, also under PYTHONDONTWRITEBYTECODE: compiling at every start would
# cost more than the start itself. Failing is no error: another user may own the checkout.
_compile() {
    _newer=$(find "$root/shared" "$root/control_plane/farhand_control_plane" \
        "$root/endpoint_daemon/farhand_daemon" -name '*.py' -newer "$venv/compiled" 2>&1 | head -n 1)
    [ -z "$_newer" ] || "$venv/bin/python" "$root/scripts/environment.py" compile || :
}

_find_python() {
    _seen=
    for _candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        command -v "$_candidate" >/dev/null 2>&1 || continue
        _version=$("$_candidate" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) ||
            continue
        case $_version in
        3.[0-9].* | 3.10.* | [012].*) _seen="${_seen:-$_candidate is $_version}" ;;
        *)
            python=$_candidate
            return 0
            ;;
        esac
    done
    die "cannot find Python 3.11 or newer: ${_seen:-no python3 on PATH}; install one or set PYTHON to its path"
}

# Make sure that .venv holds the product ($1 = up) or the product and the developer tools ($1 = test).
ensure_venv() {
    if ! _is_current "$1"; then
        _find_python
        "$python" "$root/scripts/environment.py" "$1" "$program" || exit 1
    fi
    _compile
}
