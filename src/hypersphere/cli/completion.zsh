#compdef hypersphere
_hypersphere() {
    local place=hypersphere word previous=$words[CURRENT-1]
    local -a found here options
    for word in ${words[2,CURRENT-1]}; do
        case "$place $word" in
            (INNER) place="$place $word" ;;
        esac
    done
    case "$place $previous" in
VALUES
        (*)
            case $place in
HERE
            esac
            if [[ $PREFIX == -* ]]; then found=($options); else found=($here); fi ;;
    esac
    if (( $#found )); then _describe hypersphere found; else _files; fi
}
if [[ $funcstack[1] == _hypersphere ]]; then _hypersphere "$@"; else compdef _hypersphere hypersphere; fi
