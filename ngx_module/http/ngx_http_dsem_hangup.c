
/*
 * Connections to upstreams at the exit of a worker.
 *
 * A worker that has to stop at once exits with requests running, and the
 * system closes its sockets afterwards.  Permits go back before, with the bye,
 * which may take as long as Redis is waited for.  All connections to upstreams
 * are shut down first: the permit of a request is not granted to another one
 * while an upstream still serves it.
 *
 * Called by: the module.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_http.h"


/*
 * Those that nginx has opened itself, idle ones too: they have a type, which
 * channels of processes have not, and have not been accepted.  Errors say that
 * there is no connection any more, or not yet.
 */

void
ngx_http_dsem_hangup(ngx_cycle_t *cycle)
{
    ngx_uint_t         i;
    ngx_connection_t  *c;

    /* a single process that has read its configuration again */

    if (cycle->connections == NULL) {
        return;
    }

    for (i = 0; i < cycle->connection_n; i++) {
        c = &cycle->connections[i];

        if (c->fd == (ngx_socket_t) -1 || c->listening
            || c->type != SOCK_STREAM)
        {
            continue;
        }

        (void) ngx_shutdown_socket(c->fd, SHUT_RDWR);
    }
}
