# For images without Python: what the other scripts begin with. Needs sh, cat, mv, rm, mkdir, sleep and /proc.
# Arguments of all: ID, then their own. What is told goes to standard error, between a byte 1, the ID and a newline.
id=$1
shift
exec 4>&2 2>/dev/null

tell() { printf '\001agentkit:%s:%s\n' "$id" "$*" >&4; }
fail() { tell "error $1"; exit 0; }
finish() { tell done; exit 0; }

# Only builtins from here on: ending a tree must work when no process can be started any more.
carries() {
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in *"$2"*) return 0 ;; esac
    done <"/proc/$1/environ"
    return 1
}

# Sets `found` to the living processes whose environment has the mark $1; one that has ended has no environment.
find_members() {
    found=
    for entry in /proc/[0-9]*; do
        carries "${entry#/proc/}" "$1" && found="$found ${entry#/proc/}"
    done
}

# All are stopped before the first is ended, so that nothing is faster at making new ones.
kill_tree() {
    before=none rounds=0
    find_members "$1"
    while [ "$found" != "$before" ] && [ "$rounds" -lt 50 ]; do
        kill -STOP $found
        before=$found rounds=$((rounds + 1))
        find_members "$1"
    done
    rounds=0
    while [ -n "$found" ] && [ "$rounds" -lt 500 ]; do
        kill -KILL $found
        rounds=$((rounds + 1))
        find_members "$1"
    done
}

# Sets `started` to when the process $1 began, or to nothing: with its number it tells it from a later one.
look_at_process() {
    started= letter=
    read -r line <"/proc/$1/stat" || return 1
    set -- ${line##*) }
    letter=$1 started=${20}
}

# Tells whether the process $1 that began at $2 still lives.
lives() { look_at_process "$1" && [ "$started" = "$2" ] && [ "$letter" != Z ] && [ "$letter" != X ]; }

# Why nothing can be done at the path $1, as far as the path says.
missing() {
    parent=$1
    while parent=${parent%/*} && [ -n "$parent" ]; do
        [ -d "$parent" ] && break
        [ -e "$parent" ] && fail ENOTDIR
    done
    fail ENOENT
}

check_directory() {
    [ -d "$1" ] || { [ -e "$1" ] && fail ENOTDIR; missing "$1"; }
    CDPATH= cd -- "$1" || fail EACCES
    export PWD
}

# Only files count, whatever the shell has of its own by that name.
check_program() {
    case $1 in
    */*) candidates=$1 ;;
    *) candidates=$PATH ;;
    esac
    refused=
    set -f
    IFS=:
    for candidate in $candidates; do
        case $1 in */*) ;; *) candidate=${candidate:-.}/$1 ;; esac
        [ -f "$candidate" ] || continue
        [ -x "$candidate" ] && { unset IFS; set +f; return; }
        refused=yes
    done
    [ -z "$refused" ] || fail EACCES-PROGRAM
    fail PROGRAM
}
