#!/bin/sh
# Makes .venv with the first Python from 3.11 to 3.14 that works: python3, or else the newest on the PATH. Leaves
# a working .venv alone.
# A shell script, because no working Python is known yet: version managers leave stand-ins called python3.13
# that fail, and Debian ships Python without venv. So each candidate is run.
set -u
cd "${0%/*}/.." || exit

for python in .venv/bin/python .venv/Scripts/python.exe; do # Windows has the second
    "$python" -c 'import pip' 2> /dev/null && exit
done
found=''
for python in python3 python python3.14 python3.13 python3.12 python3.11; do
    command -v $python > /dev/null || continue
    version=$($python -c 'import sys; sys.stdout.write("%d.%d" % sys.version_info[:2]); import ensurepip, venv' 2> /dev/null)
    case "$? $version" in
        "0 3.1"[1-4]) echo "Making .venv with Python $version"; exec $python -m venv --clear .venv ;;
        *" 3.1"[1-4]) found="$found, $python ($version without venv: Debian has it in python$version-venv)" ;;
        *) found="$found, $python (${version:-does not run})" ;;
    esac
done
found=${found#, }
echo "No Python for .venv: expected 3.11, 3.12, 3.13 or 3.14 on the PATH, found ${found:-none}." >&2
exit 1
