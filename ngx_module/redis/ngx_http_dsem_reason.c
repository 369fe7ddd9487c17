
/*
 * Reasons: why a connection failed, for the log.
 *
 * They have words of servers and libraries in them.  None can be longer than
 * its buffer, or forge a line of the log.
 *
 * Called by: all that connect, or handle a failure.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_reason.h"


/*
 * Writes a reason, NGX_HTTP_DSEM_REASON_LEN bytes at most, as ngx_snprintf()
 * does.  No argument may be in the reason itself.
 */

void
ngx_http_dsem_reason(char *reason, const char *fmt, ...)
{
    u_char   *last;
    va_list   args;

    last = (u_char *) reason + NGX_HTTP_DSEM_REASON_LEN - 1;

    va_start(args, fmt);
    *ngx_vslprintf((u_char *) reason, last, fmt, args) = '\0';
    va_end(args);

    ngx_http_dsem_reason_clean(reason);
}


/* no text of a peer can forge a line of the log */

void
ngx_http_dsem_reason_clean(char *text)
{
    for ( /* void */ ; *text; text++) {
        if ((u_char) *text < 0x20
            || ((u_char) *text >= 0x7f && (u_char) *text < 0xa0))
        {
            *text = '?';
        }
    }
}


/*
 * An error of a server, cleaned in place.  Where a command of a script fails,
 * Redis before 7.0 reports "ERR Error running script (call to f_<sha>):
 * @user_script:1: @user_script: 1: -READONLY You can't write ...": the result
 * is that of the command.
 */

char *
ngx_http_dsem_reason_error(char *error)
{
    char  *cause;

    ngx_http_dsem_reason_clean(error);

    if (ngx_strncmp(error, "ERR Error running script ",
                    sizeof("ERR Error running script ") - 1)
        != 0)
    {
        return error;
    }

    cause = ngx_strstr(error, ": -");

    return cause ? cause + sizeof(": -") - 1 : error;
}
