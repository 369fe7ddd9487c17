
/*
 * The time that leases and shared memory count: the same in all processes of
 * a node, and never set.
 */


#ifndef _NGX_HTTP_DSEM_MONOTONIC_H_INCLUDED_
#define _NGX_HTTP_DSEM_MONOTONIC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* CLOCK_MONOTONIC stands still while the machine is suspended */

#ifdef CLOCK_BOOTTIME
#define NGX_HTTP_DSEM_CLOCK  CLOCK_BOOTTIME
#else
#define NGX_HTTP_DSEM_CLOCK  CLOCK_MONOTONIC
#endif


/* monotonic ms; nginx's cached time is as old as the stop of a process */

static ngx_inline uint64_t
ngx_http_dsem_monotonic(void)
{
    struct timespec  ts;

    clock_gettime(NGX_HTTP_DSEM_CLOCK, &ts);

    return (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}


#endif /* _NGX_HTTP_DSEM_MONOTONIC_H_INCLUDED_ */
