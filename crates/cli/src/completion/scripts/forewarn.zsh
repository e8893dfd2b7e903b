#compdef forewarn
# Completion of forewarn for zsh.
_forewarn() {
    local output
    local -a candidates
    output=$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if [[ -z $output ]]; then
        _files
        return
    fi
    # _describe separates a word and its description with a colon.
    candidates=("${(@)${(@f)output}//:/\\:}")
    candidates=("${(@)candidates/$'\t'/:}")
    _describe -V forewarn candidates
}
if [[ ${funcstack[1]} == _forewarn ]]; then
    _forewarn "$@"
else
    compdef _forewarn forewarn
fi
