
/*
 * Waiting tickets: found by number, and in their order of service.
 *
 * Owns two orders.  All tickets that are neither held nor ended are found by
 * the number by which Redis knows them.  Those of an account whose owners
 * wait are in the order in which this worker would serve them: by class, then
 * by start tag where the queue is fair, then by age.  Those that local sets
 * aside as too heavy are not among them until they return.  Nothing here costs
 * more than the depth of a tree, for each ticket that moves.
 *
 * Called by: ticket (which enters and removes), sync, declare and message (by
 * number), dispatch, idle and local (in order), semaphore (how many wait).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_waiting.h"


typedef struct {
    ngx_rbtree_t        numbers;
    ngx_rbtree_node_t   sentinel;      /* of all trees */
    uint64_t            number;        /* of the last ticket */
    ngx_uint_t          total[2];      /* with an owner; of a dry run */
} ngx_http_dsem_waiting_t;


static void ngx_http_dsem_waiting_insert_number(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static void ngx_http_dsem_waiting_insert_order(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static void ngx_http_dsem_waiting_link(ngx_rbtree_node_t **p,
    ngx_rbtree_node_t *parent, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel);
static ngx_http_dsem_ticket_t *ngx_http_dsem_waiting_min(ngx_rbtree_t *tree);


#define ngx_http_dsem_waiting_numbered(n)                                     \
    (ngx_rbtree_data(n, ngx_http_dsem_ticket_t, node))

#define ngx_http_dsem_waiting_ordered(n)                                      \
    (ngx_rbtree_data(n, ngx_http_dsem_ticket_t, order))

#define ngx_http_dsem_waiting_tree(ticket)                                    \
    ((ticket)->aside ? &(ticket)->account->aside : &(ticket)->account->waiting)


static ngx_http_dsem_waiting_t  ngx_http_dsem_waiting;


void
ngx_http_dsem_waiting_init(void)
{
    ngx_memzero(&ngx_http_dsem_waiting, sizeof(ngx_http_dsem_waiting_t));

    ngx_rbtree_init(&ngx_http_dsem_waiting.numbers,
                    &ngx_http_dsem_waiting.sentinel,
                    ngx_http_dsem_waiting_insert_number);
}


/* a number that no ticket of this worker has had */

void
ngx_http_dsem_waiting_number(ngx_http_dsem_ticket_t *ticket)
{
    ticket->number = ++ngx_http_dsem_waiting.number;

    ngx_http_dsem_waiting_insert(ticket);
}


/* it is found by the number that it has */

void
ngx_http_dsem_waiting_insert(ngx_http_dsem_ticket_t *ticket)
{
    ngx_rbtree_insert(&ngx_http_dsem_waiting.numbers, &ticket->node);
}


void
ngx_http_dsem_waiting_remove(ngx_http_dsem_ticket_t *ticket)
{
    ngx_rbtree_delete(&ngx_http_dsem_waiting.numbers, &ticket->node);
}


/* a ticket that is neither held nor ended, or NULL */

ngx_http_dsem_ticket_t *
ngx_http_dsem_waiting_find(uint64_t number)
{
    ngx_rbtree_node_t       *node, *sentinel;
    ngx_http_dsem_ticket_t  *ticket;

    node = ngx_http_dsem_waiting.numbers.root;
    sentinel = ngx_http_dsem_waiting.numbers.sentinel;

    while (node != sentinel) {
        ticket = ngx_http_dsem_waiting_numbered(node);

        if (number == ticket->number) {
            return ticket;
        }

        node = (number < ticket->number) ? node->left : node->right;
    }

    return NULL;
}


/* the node's own key has 32 bits on some machines */

static void
ngx_http_dsem_waiting_insert_number(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    uint64_t             number;
    ngx_rbtree_node_t  **p;

    number = ngx_http_dsem_waiting_numbered(node)->number;

    for ( ;; ) {
        p = (number < ngx_http_dsem_waiting_numbered(temp)->number)
            ? &temp->left : &temp->right;

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    ngx_http_dsem_waiting_link(p, temp, node, sentinel);
}


/* its owner waits */

void
ngx_http_dsem_waiting_enter(ngx_http_dsem_ticket_t *ticket)
{
    ngx_rbtree_t  *waiting;

    waiting = ngx_http_dsem_waiting_tree(ticket);

    if (waiting->root == NULL) {
        ngx_rbtree_init(waiting, &ngx_http_dsem_waiting.sentinel,
                        ngx_http_dsem_waiting_insert_order);
    }

    ngx_rbtree_insert(waiting, &ticket->order);
    ticket->account->wanted += ticket->aside ? 0 : ticket->weight;
    ngx_http_dsem_waiting.total[ticket->dry_run]++;
    ticket->account->counted.cell->waiting++;
}


void
ngx_http_dsem_waiting_leave(ngx_http_dsem_ticket_t *ticket)
{
    ngx_rbtree_delete(ngx_http_dsem_waiting_tree(ticket), &ticket->order);
    ticket->account->wanted -= ticket->aside ? 0 : ticket->weight;
    ngx_http_dsem_waiting.total[ticket->dry_run]--;
    ticket->account->counted.cell->waiting--;
}


/* the first one is too heavy for now: those behind it are not held up */

void
ngx_http_dsem_waiting_aside(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_waiting_leave(ticket);
    ticket->aside = 1;
    ngx_http_dsem_waiting_enter(ticket);
}


/* those up to this weight have their places again */

void
ngx_http_dsem_waiting_return(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    ngx_http_dsem_ticket_t  *ticket;

    for ( ;; ) {
        ticket = ngx_http_dsem_waiting_min(&account->aside);

        if (ticket == NULL || ticket->weight > weight) {
            return;
        }

        ngx_http_dsem_waiting_leave(ticket);
        ticket->aside = 0;
        ngx_http_dsem_waiting_enter(ticket);
    }
}


/*
 * By class, start tag, number; a key has no room for all.  Those that are set
 * aside by weight first.
 */

static void
ngx_http_dsem_waiting_insert_order(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    ngx_uint_t                before;
    ngx_rbtree_node_t       **p;
    ngx_http_dsem_ticket_t   *ticket, *other;

    ticket = ngx_http_dsem_waiting_ordered(node);

    for ( ;; ) {
        other = ngx_http_dsem_waiting_ordered(temp);

        if (ticket->aside && ticket->weight != other->weight) {
            before = (ticket->weight < other->weight);

        /* R7: queue order */
        } else if (ticket->class != other->class) {
            before = (ticket->class < other->class);

        } else if (ticket->fair.start != other->fair.start) {
            before = (ticket->fair.start < other->fair.start);

        } else {
            before = (ticket->number < other->number);
        }

        p = before ? &temp->left : &temp->right;

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    ngx_http_dsem_waiting_link(p, temp, node, sentinel);
}


static void
ngx_http_dsem_waiting_link(ngx_rbtree_node_t **p, ngx_rbtree_node_t *parent,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    *p = node;
    node->parent = parent;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


/* the one of this account that is to be served first, or NULL */

ngx_http_dsem_ticket_t *
ngx_http_dsem_waiting_first(ngx_http_dsem_account_t *account)
{
    return ngx_http_dsem_waiting_min(&account->waiting);
}


static ngx_http_dsem_ticket_t *
ngx_http_dsem_waiting_min(ngx_rbtree_t *tree)
{
    ngx_rbtree_node_t  *node;

    if (tree->root == NULL || tree->root == tree->sentinel) {
        return NULL;
    }

    node = ngx_rbtree_min(tree->root, tree->sentinel);

    return ngx_http_dsem_waiting_ordered(node);
}


/* the one that is to be served last, or NULL */

ngx_http_dsem_ticket_t *
ngx_http_dsem_waiting_last(ngx_http_dsem_account_t *account)
{
    ngx_rbtree_t       *waiting;
    ngx_rbtree_node_t  *node;

    waiting = &account->waiting;

    if (waiting->root == NULL || waiting->root == waiting->sentinel) {
        return NULL;
    }

    node = waiting->root;

    while (node->right != waiting->sentinel) {
        node = node->right;
    }

    return ngx_http_dsem_waiting_ordered(node);
}


/*
 * Requests of this worker that wait for Redis or for a permit; or those of a
 * dry run, which are served meanwhile.
 */

ngx_uint_t
ngx_http_dsem_waiting_total(ngx_uint_t dry_run)
{
    return ngx_http_dsem_waiting.total[dry_run];
}
