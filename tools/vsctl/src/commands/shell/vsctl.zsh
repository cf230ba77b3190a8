#compdef vsctl
# Completion of vsctl for zsh(1): the program itself knows what may follow.
_vsctl() {
    local line
    local -a candidates
    for line in "${(@f)$(${words[1]} __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            _files
            return
        fi
        [[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    (( ${#candidates} )) && _describe vsctl candidates
}
if [[ ${funcstack[1]} == _vsctl ]]; then
    _vsctl "$@"
else
    compdef _vsctl vsctl
fi
