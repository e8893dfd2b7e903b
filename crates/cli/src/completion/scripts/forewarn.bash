# Completion of forewarn for bash 4.4 or newer.
_forewarn() {
    local line=${COMP_LINE:0:COMP_POINT} current=$2
    local -a words candidates
    # COMP_WORDS would also be split at : and =, as in URLs.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    mapfile -t candidates < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
    candidates=("${candidates[@]%%$'\t'*}")
    # Bash replaces only the part of the word after the last : or =.
    local word=${words[-1]}
    COMPREPLY=("${candidates[@]#"${word%"$current"}"}")
}
complete -o default -F _forewarn forewarn
