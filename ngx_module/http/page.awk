# Embeds page.html: a table in C of its pieces, between which the module writes
# the nonce of an answer.
#
#   awk -f page.awk page.html
#
# Called by: config (at configure time), Makefile (when the page changes).
# POSIX awk only, as lua/embed.awk.

BEGIN {
    printf "\n/* generated from page.html by page.awk */\n\n"
    printf "#include <ngx_config.h>\n#include <ngx_core.h>\n"
    printf "#include \"ngx_http_dsem_api.h\"\n\n\n"
    printf "ngx_str_t  ngx_http_dsem_page[] = {\n"
    printf "    ngx_string(\n"
}

{
    line = $0

    while ((i = index(line, "nonce=\"@NONCE@\"")) > 0) {
        emit(substr(line, 1, i + 6))
        printf "    ),\n    ngx_string(\n"
        line = substr(line, i + 14)
    }

    emit(line "\n")
}

END {
    printf "    ),\n    ngx_null_string\n};\n"
}

function emit(piece) {
    # "?" is escaped because of trigraphs
    gsub(/[\\"?]/, "\\\\&", piece)
    gsub(/\t/, "\\t", piece)
    gsub(/\r/, "\\r", piece)
    gsub(/\n/, "\\n", piece)
    printf "        \"%s\"\n", piece
}
