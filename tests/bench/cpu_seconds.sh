#!/usr/bin/env bash
# Calls a compiler, and writes what it took to cpu_seconds.txt of the build folder: seconds of user and system, output.
# usage: cpu_seconds.sh COMPILER ARGUMENTS..., as CMake calls its launchers
output=- before=
for argument in "$@"; do
    [[ $before == -o ]] && output=$argument
    before=$argument
done
TIMEFORMAT="%3U %3S $output"
{ time "$@" 2>&3; } 3>&2 2>>cpu_seconds.txt
