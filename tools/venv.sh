#!/bin/sh
# Makes .venv with the newest of Python 3.13, 3.12 and 3.11 that works here; leaves a working .venv alone.
# A shell script, because no working Python is known yet. A command called python3.13 proves nothing: version
# managers leave stand-ins that fail, and Debian ships Python without venv. So each candidate is run.
set -eu
cd "${0%/*}/.."

if .venv/bin/python -c 'import pip' 2>/dev/null; then exit 0; fi

newest=0 python='' found=''
IFS=:
for name in python3.13 python3.12 python3.11 python3 python; do
    for folder in $PATH; do
        candidate=${folder:-.}/$name
        [ -f "$candidate" ] && [ -x "$candidate" ] && [ "$folder" != "$PWD/.venv/bin" ] || continue
        version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || version=''
        case $version in
            3.11 | 3.12 | 3.13)
                if ! "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
                    found="$found, $candidate ($version, but without venv: Debian has it in python$version-venv)"
                elif [ "${version#3.}" -gt "$newest" ]; then
                    newest=${version#3.} python=$candidate
                fi ;;
            '') found="$found, $candidate (does not run)" ;;
            *) found="$found, $candidate ($version)" ;;
        esac
    done
done

if [ -z "$python" ]; then
    found=${found#, }
    echo "No Python for .venv: needed 3.11, 3.12 or 3.13 with venv on the PATH; found ${found:-no Python at all}." >&2
    exit 1
fi
echo "Making .venv with Python 3.$newest ($python)"
"$python" -m venv --clear .venv
