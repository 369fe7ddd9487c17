
/*
 * The verdict on a request: asks for one permit after the other, and decides.
 *
 * Owns the way to the one verdict, its timer, and what the record says of it
 * for logs and variables.  A request passes by NGX_DECLINED, never by NGX_OK:
 * nobody is let in here.  In a dry run it never waits: the wait goes on
 * beside it, and a refusal is noted only.
 *
 * Called by: request (it enters a location), body (it is there), tell (an
 * answer, from a posted event).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_refusal.h"
#include "ngx_http_dsem_suspend.h"
#include "ngx_http_dsem_verdict.h"


static void ngx_http_dsem_verdict_advance(ngx_http_dsem_record_t *record);
static void ngx_http_dsem_verdict_answered(ngx_http_dsem_record_t *record,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer);
static void ngx_http_dsem_verdict_note(ngx_http_dsem_record_t *record,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer);
static void ngx_http_dsem_verdict_refuse(ngx_http_dsem_record_t *record,
    ngx_http_dsem_request_status_e status);
static void ngx_http_dsem_verdict_decide(ngx_http_dsem_record_t *record,
    ngx_int_t rc);
static void ngx_http_dsem_verdict_handler(void *data);
static void ngx_http_dsem_verdict_dry_run(ngx_http_dsem_record_t *record);
static void ngx_http_dsem_verdict_timer_handler(ngx_event_t *ev);
static ngx_http_dsem_claim_t *ngx_http_dsem_verdict_waiting(
    ngx_http_dsem_record_t *record);


void
ngx_http_dsem_verdict_init(ngx_http_dsem_record_t *record)
{
    /* not cancelable: a worker that exits serves those who wait */
    record->timer.handler = ngx_http_dsem_verdict_timer_handler;
    record->timer.data = record;
    record->timer.log = record->request->connection->log;
}


/* a value that is no number: what it asks for cannot be known */

void
ngx_http_dsem_verdict_invalid(ngx_http_dsem_record_t *record,
    ngx_http_dsem_claim_t *claim)
{
    record->name = claim->ask.name;
    record->invalid = 1;
    record->position = 0;
    record->limit = -1;
    record->in_use = -1;

    ngx_http_dsem_request_leave_all(record);
    ngx_http_dsem_verdict_refuse(record, NGX_HTTP_DSEM_STATUS_ERROR);
}


/* what has no room for it now need not read its body first */

void
ngx_http_dsem_verdict_reject_early(ngx_http_dsem_record_t *record)
{
    ngx_uint_t               i;
    ngx_http_dsem_claim_t    *claim;
    ngx_http_dsem_answer_t   answer;

    if (record->conf->dry_run) {
        return;
    }

    for (i = record->current; i < record->nclaims; i++) {
        claim = &record->claims[i];

        if (ngx_http_dsem_semaphore_full(&claim->ask, &answer)) {
            ngx_http_dsem_verdict_answered(record, claim, &answer);
            return;
        }
    }
}


/*
 * Asks for what is wanted and not had yet.  NGX_AGAIN: the request waits,
 * and runs its phases when there is a verdict; else the result is for the
 * phase engine.
 */

ngx_int_t
ngx_http_dsem_verdict_ask(ngx_http_dsem_record_t *record)
{
    if (!record->decided) {
        record->started = ngx_current_msec - record->wait_time;
        ngx_http_dsem_verdict_advance(record);
    }

    if (!record->decided && ngx_http_dsem_suspend(record->request) != NGX_OK) {
        ngx_http_dsem_request_leave_all(record);
        ngx_http_dsem_verdict_decide(record, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }

    return record->decided ? record->rc : NGX_AGAIN;
}


/* asks for one after the other, until one has to be waited for */

static void
ngx_http_dsem_verdict_advance(ngx_http_dsem_record_t *record)
{
    ngx_http_dsem_claim_t    *claim;
    ngx_http_dsem_answer_t   answer;

    while (!record->decided) {

        if (record->current == record->nclaims) {
            ngx_http_dsem_verdict_decide(record, NGX_DECLINED);
            return;
        }

        claim = &record->claims[record->current];

        claim->ask.handler = ngx_http_dsem_verdict_handler;
        claim->ask.data = record;
        claim->ask.early = record->conf->dry_run;
        claim->ask.reuse = record->conf->reuse;
        claim->ask.local = (record->conf->on_error
                           == NGX_HTTP_DSEM_ON_ERROR_LOCAL);

        claim->ticket = ngx_http_dsem_semaphore_ask(&claim->ask, &answer);

        if (claim->ticket) {
            answer = *ngx_http_dsem_ticket_answer(claim->ticket);
        }

        if (answer.verdict == NGX_HTTP_DSEM_WAITING) {

            /* nginx moves a timer by less than 300 ms not at all */

            if (record->timer.timer_set) {
                ngx_del_timer(&record->timer);
            }

            ngx_add_timer(&record->timer, claim->timeout);
            return;
        }

        ngx_http_dsem_verdict_answered(record, claim, &answer);
    }
}


/* one verdict of one semaphore */

static void
ngx_http_dsem_verdict_answered(ngx_http_dsem_record_t *record,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer)
{
    ngx_http_dsem_verdict_note(record, claim, answer);

    switch (answer->verdict) {

    case NGX_HTTP_DSEM_WAITING:
    case NGX_HTTP_DSEM_GRANTED:
        if (answer->local) {
            record->status = NGX_HTTP_DSEM_STATUS_DEGRADED;

        } else if (answer->position
                   && record->status == NGX_HTTP_DSEM_STATUS_PASSED)
        {
            record->status = NGX_HTTP_DSEM_STATUS_QUEUED;
        }

        if (answer->verdict == NGX_HTTP_DSEM_WAITING) {
            record->dry_run = 1;
        }

        break;

    case NGX_HTTP_DSEM_WORKER_FULL:
        record->worker_full = 1;
        /* fall through */

    case NGX_HTTP_DSEM_REFUSED:
        ngx_http_dsem_verdict_refuse(record, NGX_HTTP_DSEM_STATUS_REJECTED);
        return;

    case NGX_HTTP_DSEM_FAILED:
        ngx_http_dsem_claim_leave(claim);

        if (record->conf->on_error != NGX_HTTP_DSEM_ON_ERROR_PASS) {
            ngx_http_dsem_verdict_refuse(record, NGX_HTTP_DSEM_STATUS_ERROR);
            return;
        }

        record->status = NGX_HTTP_DSEM_STATUS_DEGRADED;
        break;
    }

    record->current++;
}


static void
ngx_http_dsem_verdict_note(ngx_http_dsem_record_t *record,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer)
{
    /* of several semaphores, the one that made it wait is of interest */

    if (answer->verdict == NGX_HTTP_DSEM_GRANTED
        && answer->position == 0
        && record->status == NGX_HTTP_DSEM_STATUS_QUEUED)
    {
        return;
    }

    record->name = claim->ask.name;
    record->position = answer->position;
    record->limit = answer->limit;
    record->in_use = answer->in_use;
    record->weight = claim->ask.weight;
}


static void
ngx_http_dsem_verdict_refuse(ngx_http_dsem_record_t *record,
    ngx_http_dsem_request_status_e status)
{
    record->status = status;
    record->wait_time = ngx_current_msec - record->started;

    ngx_http_dsem_request_leave_all(record);
    ngx_http_dsem_refusal_log(record);

    if (record->conf->dry_run) {
        record->dry_run = 1;
        ngx_http_dsem_verdict_decide(record, NGX_DECLINED);
        return;
    }

    record->refused = 1;
    ngx_http_dsem_verdict_decide(record, ngx_http_dsem_refusal_code(record));
}


static void
ngx_http_dsem_verdict_decide(ngx_http_dsem_record_t *record, ngx_int_t rc)
{
    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, record->request->connection->log, 0,
                   "dsem decided: %i, status:%d, waited:%M", rc,
                   (int) record->status,
                   ngx_current_msec - record->started);

    record->decided = 1;
    record->rc = rc;
    record->wait_time = ngx_current_msec - record->started;

    /* in a dry run the wait goes on beside the request */

    if (record->timer.timer_set && !record->dry_run) {
        ngx_del_timer(&record->timer);
    }
}


static void
ngx_http_dsem_verdict_handler(void *data)
{
    ngx_http_dsem_record_t  *record = data;

    ngx_http_dsem_claim_t    *claim;
    ngx_http_dsem_answer_t   answer;

    ngx_http_set_log_request(record->request->connection->log,
                             record->request);

    if (record->decided) {
        ngx_http_dsem_verdict_dry_run(record);
        return;
    }

    claim = &record->claims[record->current];
    answer = *ngx_http_dsem_ticket_answer(claim->ticket);

    if (answer.verdict == NGX_HTTP_DSEM_WAITING && answer.position == 0) {
        /* in a dry run, the verdict on a line before this one */
        return;
    }

    ngx_http_dsem_verdict_answered(record, claim, &answer);
    ngx_http_dsem_verdict_advance(record);

    if (record->decided) {
        ngx_http_dsem_resume(record->request);
    }
}


/* a dry run: the request is being served while its ticket waits */

static void
ngx_http_dsem_verdict_dry_run(ngx_http_dsem_record_t *record)
{
    ngx_uint_t             i;
    ngx_http_dsem_claim_t  *claim;

    for (i = 0; i < record->nclaims; i++) {
        claim = &record->claims[i];

        if (claim->ticket == NULL) {
            continue;
        }

        switch (ngx_http_dsem_ticket_answer(claim->ticket)->verdict) {

        case NGX_HTTP_DSEM_WAITING:
            return;

        case NGX_HTTP_DSEM_GRANTED:
            break;

        default:
            ngx_http_dsem_claim_leave(claim);
            break;
        }
    }

    if (record->timer.timer_set) {
        ngx_del_timer(&record->timer);
    }
}


static void
ngx_http_dsem_verdict_timer_handler(ngx_event_t *ev)
{
    ngx_uint_t               decided;
    ngx_http_dsem_claim_t    *claim;
    ngx_http_dsem_record_t  *record;

    record = ev->data;

    ngx_http_set_log_request(record->request->connection->log,
                             record->request);

    decided = record->decided;
    claim = ngx_http_dsem_verdict_waiting(record);

    if (claim == NULL) {
        return;
    }

    ngx_http_dsem_verdict_note(record, claim,
                               ngx_http_dsem_ticket_answer(claim->ticket));
    ngx_http_dsem_verdict_refuse(record, NGX_HTTP_DSEM_STATUS_TIMEOUT);

    if (!decided) {
        ngx_http_dsem_resume(record->request);
    }
}


/* what the request waits for, in a dry run beside being served; or NULL */

static ngx_http_dsem_claim_t *
ngx_http_dsem_verdict_waiting(ngx_http_dsem_record_t *record)
{
    ngx_uint_t             i;
    ngx_http_dsem_claim_t  *claim;

    for (i = 0; i < record->nclaims; i++) {
        claim = &record->claims[i];

        if (claim->ticket
            && ngx_http_dsem_ticket_answer(claim->ticket)->verdict
               == NGX_HTTP_DSEM_WAITING)
        {
            return claim;
        }
    }

    return NULL;
}
