# Background processes and what the watchdog reads. Arguments: DIRECTORY OPERATION [ARGUMENT...].
directory=$1 operation=$2
shift 2
umask 077

# Writes the number $2... into the file $1, whole or not at all.
write() { file=$1; shift; printf '%s\n' "$*" >"$file.new" && mv -f -- "$file.new" "$file"; }

# Sets `code` to the exit code of the process in the directory $1, to 255 if nobody saw it, or to nothing.
look_at_end() {
    code= pid= began= keeper= keeper_began=
    read -r pid began keeper keeper_began <"$1/process" || return 1
    alive=
    if lives "$pid" "$began" || lives "$keeper" "$keeper_began"; then alive=yes; fi
    # Looked at last: a keeper writes down the end, then ends.
    read -r code <"$1/exit" || [ -n "$alive" ] || code=255
}

keep() {
    trap : TERM
    state=$1 log=$2 mark=$3
    shift 3
    (export AGENTKIT_PROCESS="$mark"; exec "$@" >>"$log" 2>&1 </dev/null 4>&-) &
    child=$!
    read -r me _ </proc/self/stat
    look_at_process "$child"
    child_started=$started
    look_at_process "$me"
    write "$state/process" "$child $child_started $me $started"
    exec >/dev/null 4>&-
    wait "$child"
    status=$?
    # The request to end is the process's, not this one's.
    while kill -0 "$child"; do wait "$child"; status=$?; done
    write "$state/exit" "$status"
}

# Prints of each process its name, number, exit code, log, how many words it has, and those, each ended by a NUL byte.
list() {
    for state in "$directory"/processes/*/; do
        look_at_end "${state%/}" || continue
        cat "${state}name"
        printf '\000%s\000%s\000' "$pid" "$code"
        cat "${state}log"
        printf '\000'
        cat "${state}argv"
    done
}

case $operation in
touch)
    mkdir -p "$directory"
    read -r now _ </proc/uptime
    write "$directory/lease" "$now" || fail EACCES
    ;;
inactivity)
    mkdir -p "$directory"
    write "$directory/inactivity" "$1" || fail EACCES
    ;;
start)
    # Arguments: KEY LOG MARK CWD NAME PROGRAM [ARGUMENT...]
    state=$directory/processes/$1 log=$2 mark=$3 cwd=$4 name=$5
    shift 5
    look_at_end "$state" && [ -z "$code" ] && fail EXISTS
    check_directory "$cwd"
    check_program "$1"
    rm -rf "$state"
    mkdir -p "$state" "${log%/*}" || fail EACCES
    rm -f "$log"
    printf '' >"$log" || fail EACCES
    printf '%s' "$name" >"$state/name"
    printf '%s' "$log" >"$state/log"
    printf '%s' "$mark" >"$state/mark"
    printf '%s\000' "$#" "$@" >"$state/argv"
    # Not the function alone: a shell would keep its output for when that returns.
    (keep "$state" "$log" "$mark" "$@") </dev/null >/dev/null &
    rounds=0
    while ! [ -e "$state/process" ]; do
        [ "$rounds" -lt 200 ] || fail EAGAIN
        rounds=$((rounds + 1))
        sleep 0.02 || sleep 1
    done
    list
    ;;
list)
    list
    ;;
wait)
    # Arguments: KEY. Says "running" after a while: whoever asked may be gone.
    look_at_end "$directory/processes/$1" || fail UNKNOWN
    rounds=0
    while [ -z "$code" ] && [ "$rounds" -lt 200 ]; do
        sleep 0.1 || sleep 1
        rounds=$((rounds + 1))
        look_at_end "$directory/processes/$1"
    done
    tell "ended ${code:-running}"
    ;;
kill)
    # Arguments: KEY ROUNDS, of a twentieth of a second each
    state=$directory/processes/$1
    look_at_end "$state" || { tell missing; finish; }
    [ -z "$code" ] || tell missing
    read -r mark <"$state/mark" || [ -n "$mark" ]
    find_members "AGENTKIT_PROCESS=$mark"
    [ -z "$found" ] || kill -TERM $found
    rounds=0
    while [ -n "$found" ] && [ "$rounds" -lt "$2" ]; do
        sleep 0.05 || { sleep 1; rounds=$((rounds + 19)); }
        rounds=$((rounds + 1))
        find_members "AGENTKIT_PROCESS=$mark"
    done
    kill_tree "AGENTKIT_PROCESS=$mark"
    rounds=0
    while look_at_end "$state" && [ -z "$code" ] && [ "$rounds" -lt 100 ]; do
        sleep 0.02 || sleep 1
        rounds=$((rounds + 1))
    done
    ;;
log)
    # Arguments: KEY OFFSET FOLLOW. With FOLLOW, waits for a while until there is more.
    state=$directory/processes/$1
    look_at_end "$state" || fail UNKNOWN
    read -r log <"$state/log" || [ -n "$log" ]
    [ -r "$log" ] || fail ENOENT
    rounds=0
    while [ -n "$3" ] && [ -z "$code" ] && [ "$(wc -c <"$log")" -le "$2" ] && [ "$rounds" -lt 200 ]; do
        sleep 0.1 || sleep 1
        rounds=$((rounds + 1))
        look_at_end "$state"
    done
    # Asked before the file is read: what it prints at its end is not missed.
    [ -n "$3" ] && [ -z "$code" ] && tell more
    tail -c "+$(($2 + 1))" "$log"
    ;;
listening)
    # Arguments: PORT, in hexadecimal
    for table in /proc/net/tcp /proc/net/tcp6; do
        while read -r _ address _ state _; do
            [ "${address##*:}" = "$1" ] && [ "$state" = 0A ] && tell listening
        done <"$table"
    done
    ;;
end)
    # Arguments: MARK
    kill_tree "AGENTKIT_EXEC=$1"
    ;;
esac
finish
