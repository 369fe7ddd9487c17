
/*
 * Processes: those of this node that use its shared memory.
 */


#ifndef _NGX_HTTP_DSEM_PROCESS_H_INCLUDED_
#define _NGX_HTTP_DSEM_PROCESS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* a process; its number is never used again */
typedef struct {
    ngx_atomic_t                  pid;       /* 0: free */
    ngx_atomic_t                  number;    /* 0: not filled in */
    uint64_t                      started;   /* in clock ticks; 0: unknown */
} ngx_http_dsem_process_t;


typedef struct {
    ngx_uint_t                    n;
    ngx_atomic_t                  used;      /* none is behind these */
    ngx_atomic_t                  number;    /* the last that was given */
    ngx_http_dsem_process_t      *processes;
} ngx_http_dsem_processes_t;


ngx_int_t ngx_http_dsem_process_enter(ngx_http_dsem_processes_t *processes);
void ngx_http_dsem_process_retry(void);
void ngx_http_dsem_process_leave(void);
ngx_atomic_uint_t ngx_http_dsem_process_number(void);

ngx_uint_t ngx_http_dsem_process_registered(ngx_atomic_uint_t number);
ngx_uint_t ngx_http_dsem_process_alive(ngx_atomic_uint_t number);
ngx_uint_t ngx_http_dsem_process_was_alive(ngx_atomic_uint_t number);

void ngx_http_dsem_processes_refresh(void);
void ngx_http_dsem_processes_sweep(void);

void ngx_http_dsem_process_raise(ngx_atomic_t *value, ngx_atomic_uint_t least);
ngx_uint_t ngx_http_dsem_process_latest(ngx_atomic_t *last, uint64_t sent);


#endif /* _NGX_HTTP_DSEM_PROCESS_H_INCLUDED_ */
