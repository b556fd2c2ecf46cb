# Carries out one operation on files. Arguments: OPERATION PATH [ARGUMENT...].
operation=$1 path=$2

check_readable() { [ -r "$1" ] || fail EACCES; }

# Prints a file's mode, size and time, its name and where it leads, each ended by a NUL byte.
describe() {
    facts=$(stat -c '%f %s %Y' -- "$1") || return
    target=
    [ -L "$1" ] && target=$(readlink -- "$1")
    printf '%s\000%s\000%s\000' "$facts" "$1" "$target"
}

# What stands at the path $1 can't be replaced by a file.
check_replaceable() { [ -d "$1" ] && [ ! -L "$1" ] && fail EISDIR; }

case $operation in
read)
    [ -e "$path" ] || missing "$path"
    [ -d "$path" ] && fail EISDIR
    [ -f "$path" ] || fail EINVAL
    check_readable "$path"
    cat -- "$path" || fail EIO
    ;;
receive)
    # The content goes beside the file: the end of the input may be the death of the owner.
    check_replaceable "$path"
    directory=${path%/*}
    mkdir -p -- "${directory:-/}" || { [ -d "$directory" ] || missing "$path/"; fail EACCES; }
    printf '' >"$3" || fail EACCES
    cat >"$3" || { rm -f -- "$3"; fail ENOSPC; }
    ;;
put)
    # Arguments: SOURCE SIZE [MODE]
    [ "$(wc -c <"$3")" -eq "$4" ] || { rm -f -- "$3"; fail EIO; }
    mode=$5
    [ -z "$mode" ] && [ -f "$path" ] && [ ! -L "$path" ] && mode=$(stat -c %a -- "$path")
    [ -z "$mode" ] || chmod "$mode" "$3" || fail EPERM
    # A link to a directory would lead mv into it.
    [ -L "$path" ] && rm -f -- "$path"
    check_replaceable "$path"
    mv -f -- "$3" "$path" || { rm -f -- "$3"; fail EACCES; }
    ;;
drop)
    rm -f -- "$path"
    ;;
entries)
    [ -d "$path" ] || { [ -e "$path" ] && fail ENOTDIR; missing "$path"; }
    check_readable "$path"
    for file in "${path%/}"/* "${path%/}"/.[!.]* "${path%/}"/..?*; do
        [ -e "$file" ] || [ -L "$file" ] || continue
        describe "$file"
    done
    ;;
walk)
    [ -d "$path" ] && cd -- "$path" || finish
    find . ! -name . -exec sh -c '
        for file; do
            facts=$(stat -c "%f %s %Y" -- "$file") || continue
            target=
            [ -L "$file" ] && target=$(readlink -- "$file")
            printf "%s\000%s\000%s\000" "$facts" "$0/${file#./}" "$target"
        done' "${path%/}" {} +
    ;;
stat)
    if [ -e "$path" ] || [ -L "$path" ]; then describe "$path"; fi
    ;;
mkdir)
    if [ -e "$path" ] && [ ! -d "$path" ]; then fail EEXIST; fi
    mkdir -p -- "$path" || { parent=${path%/*}; [ -d "${parent:-/}" ] && fail EACCES; missing "$path"; }
    ;;
move)
    [ -e "$path" ] || [ -L "$path" ] || missing "$path"
    if [ -d "$3" ] && [ ! -L "$3" ]; then
        [ -d "$path" ] && [ ! -L "$path" ] || fail EISDIR-TARGET
        rmdir -- "$3" || fail ENOTEMPTY-TARGET
    elif [ -L "$3" ]; then
        rm -f -- "$3" || fail EACCES-TARGET
    fi
    parent=${3%/*}
    [ -d "${parent:-/}" ] || fail ENOENT-TARGET
    mv -f -- "$path" "$3" || fail EACCES-TARGET
    ;;
remove)
    [ -e "$path" ] || [ -L "$path" ] || { tell missing; finish; }
    rm -rf -- "$path"
    if [ -e "$path" ] || [ -L "$path" ]; then fail EACCES; fi
    ;;
esac
finish
