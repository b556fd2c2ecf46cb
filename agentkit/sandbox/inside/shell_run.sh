# Runs a command. Arguments: LIMIT WHOLE COUNT MERGE DIRECTORY PROGRAM [ARGUMENT...]: the time limit in seconds and
# rounded up, or nothing; how many bytes of standard input are the command's; the end of the rest is the owner's death.
limit=$1 whole=$2 count=$3 merge=$4
check_directory "$5"
shift 5
check_program "$1"

memory_kills() {
    kills=0
    for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
        while read -r name number; do
            [ "$name" = oom_kill ] && kills=$number
        done <"$file"
    done
}

# Waits for the program in $@ and then ends the tree, unless it is ended first.
when_over() {
    # A program that is just about to begin survives anything less.
    trap 'kill -KILL $!; exit 0' TERM
    code=$1
    shift
    "$@" <&3 >/dev/null &
    # A sleep that knows no fractions fails at once.
    wait $! || [ "$code" = 43 ] || { sleep "$whole" & wait $!; }
    trap '' TERM
    kill_tree "AGENTKIT_EXEC=$id"
    exit "$code"
}

exec 3<&0
if [ "$count" -gt 0 ]; then
    input=${TMPDIR:-/tmp}/.agentkit-$id
    (umask 077 && head -c "$count" <&3 >"$input") && exec 0<"$input" || fail INPUT
    rm -f "$input"
else
    exec 0</dev/null
fi
(when_over 43 cat) >/dev/null 4>&- &
owner=$!
timer=
[ -z "$limit" ] || { (when_over 42 sleep "$limit") >/dev/null 4>&- & timer=$!; }
memory_kills
before=$kills
tell begun
export AGENTKIT_EXEC="$id"
if [ -n "$merge" ]; then
    (exec "$@" 2>&1 3<&- 4>&-)
else
    (exec "$@" 2>&4 3<&- 4>&-)
fi
status=$?
memory_kills
late=
if [ -n "$timer" ]; then
    kill "$timer"
    wait "$timer"
    [ "$?" = 42 ] && late=late
fi
kill "$owner"
wait "$owner"
[ "$status" != 0 ] && [ "$kills" -gt "$before" ] && memory=memory || memory=
tell "exit $status,$late,$memory"
