#!/usr/bin/env bash
# Runs the test suite on each supported Python with the oldest and the newest supported `datasets`, and prints a table.
#
#     scripts/check_versions.sh [--quick]
#
# --quick runs one cell, the oldest Python with the oldest `datasets`. PYTHONS and DATASETS choose others, for example
# PYTHONS="3.12 3.13" DATASETS="4.0.0". Interpreters are those of pyenv, else those on PATH; a Python that is nowhere is a
# failed cell. Environments are made in a temporary directory and removed. Exits 1 if a cell failed.

set -euo pipefail
cd "$(dirname "$0")/.."

pythons=${PYTHONS:-3.10 3.11 3.12 3.13}
releases=${DATASETS:-3.4.1 5.2.0}
case "${1:-}" in
    "") ;;
    --quick) pythons=${pythons%% *} releases=${releases%% *} ;;
    *) sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

interpreter() { # interpreter 3.12: a command that runs that Python
    local found
    if command -v pyenv > /dev/null && found=$(pyenv latest "$1" 2> /dev/null); then
        echo "$(pyenv root)/versions/$found/bin/python"
    else
        type -P "python$1"
    fi
}

check() { # check PYTHON RELEASE ENVIRONMENT: the suite in a new environment
    local command
    command=$(interpreter "$1") || { echo "Python $1 is not here"; return 1; }
    "$command" -m venv "$3" && "$3/bin/pip" install --quiet --editable '.[test]' "datasets==$2" && "$3/bin/python" -m pytest -p no:cacheprovider
}

table="" failed=0
for python in $pythons; do
    for release in $releases; do
        cell="$scratch/$python-$release"
        result=passed
        check "$python" "$release" "$cell" < /dev/null > "$cell.log" 2>&1 || { result=FAILED failed=1; tail -n 60 "$cell.log"; }
        table+=$(printf '%-8s %-10s %-7s %s' "$python" "$release" "$result" "$(tail -n 1 "$cell.log" | tr -d =)")$'\n'
        rm -rf "$cell"
    done
done
printf '%-8s %-10s %-7s %s\n%s' python datasets result "last line" "$table"
exit $failed
