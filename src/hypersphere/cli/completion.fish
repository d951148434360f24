function __hypersphere_at
    set -l place hypersphere
    for word in (commandline -opc)[2..-1]
        switch "$place $word"
            case INNER
                set place "$place $word"
        end
    end
    test "$place" = "$argv"
end
