#!/bin/sh
# Installs mnemo from this clone for the present user, and proves that it works.
#
#   ./install.sh              install, show a proof, register with Claude Code and Codex where they are there
#   ./install.sh --test       set up the development environment in .venv and run every check and test
#   ./install.sh --uninstall  take the program and its registration away; memories stay, unless
#                             --delete-memories follows
#
# MNEMO_HOME moves the memories, MNEMO_APP the program, PYTHON names the interpreter to build with.
set -eu

clone=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
fail() {
    printf '\nmnemo was not installed: %s\n' "$1" >&2
    printf 'What to do: %s\n' "$2" >&2
    exit 1
}

base_folder() {
    case $(uname -s) in
        Darwin) printf '%s' "${HOME:?}/Library/Application Support" ;;
        *) printf '%s' "${XDG_DATA_HOME:-${HOME:?}/.local/share}" ;;
    esac
}

find_python() {
    for candidate in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3 python3.14; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

run_tests() {
    step "Development environment in .venv"
    python=$(find_python) || fail "no Python 3.11 or newer with venv was found" \
        "install one, or name it: PYTHON=/path/to/python3 ./install.sh --test"
    [ -x "$clone/.venv/bin/python" ] || "$python" -m venv "$clone/.venv"
    "$clone/.venv/bin/python" -m pip install --disable-pip-version-check --quiet \
        --editable "$clone[test,lint]" || fail "the packages could not be installed" \
        "check that the package index can be reached, then run it again"
    cd "$clone"
    step "Lint and types"
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/mypy
    step "Tests"
    exec .venv/bin/python -m pytest -n auto --maxprocesses 4 --dist loadfile "$@"
}

register() {
    if MNEMO_HOME=$data "$app/venv/bin/python" -I -m mnemo_mcp.cli install --found </dev/null >"$log" 2>&1; then
        cat "$log"
        say "For other clients: mnemo install CLIENT (mnemo install --help lists them)."
        return 0
    fi
    say "mnemo itself is installed and works, but it could not be registered with your clients:" >&2
    sed 's/^/  /' "$log" >&2
    return 1
}

uninstall() {
    problems=0
    if [ -x "$app/venv/bin/mnemo" ]; then
        MNEMO_HOME=$data "$app/venv/bin/mnemo" uninstall "$@" || problems=1
    elif command -v claude >/dev/null 2>&1; then
        claude plugin uninstall mnemo@mnemo </dev/null >/dev/null 2>&1 || true
        claude plugin marketplace remove mnemo </dev/null >/dev/null 2>&1 || true
        say "Your memories, if there are any, stay in $data."
    fi
    if [ "$problems" -ne 0 ]; then
        say "The program stays until that is mended; then run this again." >&2
        exit 1
    fi
    [ "$(readlink "$bin/mnemo" 2>/dev/null)" = "$app/venv/bin/mnemo" ] && rm -f "$bin/mnemo"
    [ ! -e "$app/made-bin" ] || rmdir "$bin" 2>/dev/null || true
    rm -rf "$app"
    say "mnemo is uninstalled."
}

: "${HOME:?HOME is not set}"
data=${MNEMO_HOME:-$(base_folder)/mnemo}
app=${MNEMO_APP:-$(base_folder)/mnemo-app}
bin=$HOME/.local/bin

case ${1-} in
    --test) shift; run_tests "$@" ;;
    --uninstall) shift; uninstall "$@"; exit 0 ;;
    "") ;;
    *) fail "unknown option $1" "run it without options, with --test or with --uninstall" ;;
esac

umask 077 # what is installed is this person's alone

# Whatever fails from here on, what this run made is taken away again.
fresh=
log=
clean_up() {
    status=$?
    [ -z "$log" ] || rm -f "$log"
    if [ "$status" -ne 0 ] && [ -n "$fresh" ]; then
        rm -rf "$fresh"
        rmdir "$app" 2>/dev/null || true
        say "Nothing was changed." >&2
    fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

step "1/5 Python"
python=$(find_python) || fail "no Python 3.11 or newer with venv was found" \
    "install one (Debian: apt install python3-venv), or name it: PYTHON=/path/to/python3 ./install.sh"
say "$python ($("$python" -c 'import platform; print(platform.python_version())'))"

step "2/5 Private environment in $app"
mkdir -p "$app"
log=$(mktemp)
fresh=$app/env-$(date +%Y%m%d%H%M%S)-$$
"$python" -m venv "$fresh" || fail "the environment could not be made" "see the message above"

step "3/5 Packages (about 250 MB; the first time this takes a minute or two)"
"$fresh/bin/python" -m pip install --disable-pip-version-check "$clone" ||
    fail "the packages could not be installed" "check that the package index can be reached, then run it again"
mkdir "$fresh/plugin"
cp -R "$clone/.claude-plugin" "$clone/claude_plugin" "$fresh/plugin/"

step "4/5 Proof: a throw-away memory, three questions"
"$fresh/bin/mnemo" demo || fail "the proof did not succeed" "please report the output above"

step "5/5 Putting it in place, and registering it with your clients"
[ -x "$app/venv/bin/mnemo" ] && "$app/venv/bin/mnemo" stop >/dev/null 2>&1 || true
old=$(readlink "$app/venv" 2>/dev/null || true)
ln -sfn "$fresh" "$app/venv.new" && "$python" -c 'import os, sys; os.replace(*sys.argv[1:])' "$app/venv.new" "$app/venv"
ln -sfn "$app/venv/plugin" "$app/plugin"
[ -d "$bin" ] || : >"$app/made-bin"
mkdir -p "$bin" && ln -sfn "$app/venv/bin/mnemo" "$bin/mnemo"
MNEMO_HOME=$data "$app/venv/bin/python" -I -c '
import os
from mnemo_mcp.thin import link
link.write_pointer(os.environ["MNEMO_HOME"])'
fresh=
case $old in
    "$app"/env-*) rm -rf "$old" ;;
esac
registered=0
register || registered=1
case ":$PATH:" in
    *":$bin:"*) ;;
    *) say "Add $bin to PATH to use the mnemo command." ;;
esac
say ""
say "mnemo is installed. Memories live in $data. Try: mnemo remember \"...\" and mnemo recall \"...\""
exit "$registered"
