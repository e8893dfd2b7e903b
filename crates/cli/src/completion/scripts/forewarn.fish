# Completion of forewarn for fish.
function __forewarn_complete
    set -l words (commandline -opc)
    set -g __forewarn_candidates ($words[1] __complete -- $words[2..] (commandline -ct) 2>/dev/null)
    test (count $__forewarn_candidates) -gt 0
end
complete -c forewarn -f -k -n __forewarn_complete -a '$__forewarn_candidates'
