# Assembles the scripts: lua/<name>.lua with its includes inlined, each
# include once per script.  Comments and empty lines are left out: every worker
# sends the scripts at every connect, and once more when it exits.
#
#   awk -v dir=lua -f lua/embed.awk hello sync ...          table in C
#   awk -v dir=lua -v text=1 -f lua/embed.awk sync          text of one script
#
# Called by: config (at configure time), Makefile (when a script changes),
# t/lib/Dsem/Test.pm.  POSIX awk only: a machine that builds nginx may have no
# other.  The names must come in the order of the enum in
# ngx_http_dsem_scripts.h.  Both forms have the same bytes, so SCRIPT LOAD
# returns the same SHA-1 for both.

BEGIN {
    if (dir == "") {
        dir = "lua"
    }

    if (!text) {
        head()
    }

    for (i = 1; i < ARGC; i++) {
        script(ARGV[i])
    }

    if (!text) {
        printf "};\n"
    }

    exit
}

function head() {
    printf "\n/* generated from lua/ by lua/embed.awk */\n\n"
    printf "#include <ngx_config.h>\n#include <ngx_core.h>\n"
    printf "#include \"ngx_http_dsem_scripts.h\"\n\n\n"
    printf "ngx_str_t  ngx_http_dsem_scripts[] = {\n"
}

function script(name) {
    split("", inlined)

    if (!text) {
        printf "    ngx_string(\n"
    }

    inline_file(name ".lua")

    if (!text) {
        printf "    ),\n"
    }
}

function inline_file(file,    path, line, n) {
    if (file in inlined) {
        return
    }

    inlined[file] = 1
    path = dir "/" file

    while ((n = (getline line < path)) > 0) {
        if (line ~ /^-- @include "[^"]+"$/) {
            inline_file(substr(line, 14, length(line) - 14))
        } else if (line !~ /^ *(--|$)/) {
            emit(line)
        }
    }

    if (n < 0) {
        printf "embed.awk: cannot read \"%s\"\n", path | "cat 1>&2"
        exit 1
    }

    close(path)
}

function emit(line) {
    if (text) {
        printf "%s\n", line
        return
    }

    # "?" is escaped because of trigraphs
    gsub(/[\\"?]/, "\\\\&", line)
    gsub(/\t/, "\\t", line)
    gsub(/\r/, "\\r", line)
    printf "        \"%s\\n\"\n", line
}
