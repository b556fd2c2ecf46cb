# The main process of a sandbox: runs the entrypoint, if there is one, and ends everything once the sandbox is
# unused for too long (exit 75), too old (76), asked to (143), or the entrypoint has ended.
# Needs sh, sleep and /proc. Arguments: DIRECTORY INACTIVITY LIFETIME [PROGRAM ARGUMENT...], in seconds.
directory=$1 inactivity=$2 lifetime=$3 child=
shift 3

# The machine's uptime can't be set, and it goes on while the machine is suspended.
look_at_clock() { read -r now _ </proc/uptime; now=${now%%.*}; }

# A full process table must not end the sandbox: `command eval` survives a fork that fails.
pause() { command eval 'sleep "$1" & wait "$!"' 2>/dev/null; }

read_number() {
    number=
    # A pipe or a device in its place would hold us up for ever.
    [ -f "$directory/$1" ] && [ -r "$directory/$1" ] && read -r number <"$directory/$1"
    number=${number%%.*}
    case $number in '' | *[!0-9]*) return 1 ;; esac
}

others_live() {
    for process in /proc/[0-9]*; do
        case ${process#/proc/} in 1 | "$$") ;; *) return 0 ;; esac
    done
    return 1
}

# Outside a sandbox, where our parent isn't the first process, a broadcast would end far too much.
stop() {
    trap '' TERM
    [ "$PPID" -eq 1 ] && kill -TERM -1
    look_at_clock
    deadline=$((now + $2))
    while others_live && [ "$now" -lt "$deadline" ]; do pause 0.1 || pause 1; look_at_clock; done
    exit "$1"
}

# Codes that mean something of ours are not the entrypoint's to give.
stop_with_child() {
    wait "$child"
    code=$?
    case $code in 75 | 76 | 143) code=1 ;; esac
    stop "$code" 10
}

trap 'stop 143 3600' TERM
look_at_clock
started=$now used=$now
while :; do
    look_at_clock
    # A moment to come, beyond the second that has just begun, is no use of the sandbox.
    if read_number lease && [ "$number" -gt "$used" ] && [ "$number" -le "$((now + 1))" ]; then used=$number; fi
    if read_number inactivity; then inactivity=$number; fi
    if [ "$((now - used))" -ge "$inactivity" ]; then stop 75 10; fi
    if [ "$((now - started))" -ge "$lifetime" ]; then stop 76 10; fi
    if [ -n "$child" ]; then
        kill -0 "$child" 2>/dev/null || stop_with_child
        pause 1
    elif [ "$#" -gt 0 ] && [ -r "$directory/environment" ]; then
        (. "$directory/environment" && exec "$@") &
        child=$!
    elif [ "$#" -gt 0 ]; then
        pause 0.1 || pause 1
    else
        pause 1
    fi
done
