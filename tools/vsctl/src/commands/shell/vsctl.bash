# Completion of vsctl for bash(1): the program itself knows what may follow.
_vsctl() {
    local line=${COMP_LINE:0:COMP_POINT} current candidate prefix=
    local -a words candidates
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    # bash takes what is before the last = or : for words of their own.
    [[ $current == *[=:]* ]] && prefix=${current%"${current##*[=:]}"}
    mapfile -t candidates < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
    COMPREPLY=()
    for candidate in "${candidates[@]}"; do
        if [[ $candidate == :files ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "${current#"$prefix"}")
            return
        fi
        candidate=${candidate%%$'\t'*}
        [[ $candidate == "$current"* ]] && COMPREPLY+=("${candidate#"$prefix"}")
    done
}
complete -F _vsctl vsctl
