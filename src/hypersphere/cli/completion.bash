_hypersphere() {
    local place=hypersphere word words= options=
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$place $word" in
            INNER) place="$place $word" ;;
        esac
    done
    case "$place $previous" in
VALUES
        *)
            case $place in
HERE
            esac
            [[ $current == -* ]] && words=$options ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _hypersphere hypersphere
