
/*
 * The text of inspect and names, without nginx and Redis: right texts, and
 * texts that are wrong in every way, each in memory of exactly its length.
 *
 * Prints one line for each assertion, "ok" or "not ok" and its name.
 */


#include "ngx_http_dsem_fleet.c"
#include "ngx_http_dsem_inspect.c"
#include "ngx_http_dsem_roster.c"
#include <ngx_sha1.h>
#include <stdio.h>


#define TEXT_SIZE      (256 * 1024)
#define TEXT_NAMES     8
#define TEXT_SESSIONS  5


/* memory of a pool, in pieces of their own */
struct text_piece_s {
    struct text_piece_s      *next;
};

typedef struct text_piece_s  text_piece_t;


volatile ngx_cycle_t         *ngx_cycle;
uint32_t                     *ngx_crc32_table_short;
static uint32_t               text_crc32[16];
static ngx_cycle_t            text_cycle;
static uint64_t               text_seed = 1;
static size_t                 text_pieces;
static size_t                 text_fail_at;
static u_char                 text_buf[TEXT_SIZE];
static size_t                 text_len;


static ngx_uint_t text_reject(ngx_uint_t names);


/* what it needs of nginx, whose sources may not be here */

void *
ngx_alloc(size_t size, ngx_log_t *log)
{
    if (text_fail_at && --text_fail_at == 0) {
        return NULL;
    }

    text_pieces++;

    return malloc(size);
}


void *
ngx_calloc(size_t size, ngx_log_t *log)
{
    void  *p;

    p = ngx_alloc(size, log);

    if (p) {
        ngx_memzero(p, size);
    }

    return p;
}


/* ngx_free() is free() */

static void
text_free(void *p)
{
    text_pieces--;
    ngx_free(p);
}


ngx_pool_t *
ngx_create_pool(size_t size, ngx_log_t *log)
{
    ngx_pool_t  *pool;

    pool = ngx_alloc(sizeof(ngx_pool_t), log);

    if (pool) {
        ngx_memzero(pool, sizeof(ngx_pool_t));
    }

    return pool;
}


void
ngx_destroy_pool(ngx_pool_t *pool)
{
    text_piece_t  *piece, *next;

    for (piece = (text_piece_t *) pool->large; piece; piece = next) {
        next = piece->next;
        text_free(piece);
    }

    text_free(pool);
}


void *
ngx_palloc(ngx_pool_t *pool, size_t size)
{
    text_piece_t  *piece;

    piece = ngx_alloc(sizeof(text_piece_t) + size, NULL);
    if (piece == NULL) {
        return NULL;
    }

    piece->next = (text_piece_t *) pool->large;
    pool->large = (ngx_pool_large_t *) piece;

    return piece + 1;
}


void *
ngx_pnalloc(ngx_pool_t *pool, size_t size)
{
    return ngx_palloc(pool, size);
}


void *
ngx_pcalloc(ngx_pool_t *pool, size_t size)
{
    void  *p;

    p = ngx_palloc(pool, size);

    if (p) {
        ngx_memzero(p, size);
    }

    return p;
}


u_char *
ngx_pstrdup(ngx_pool_t *pool, ngx_str_t *src)
{
    u_char  *p;

    p = ngx_palloc(pool, src->len);

    if (p) {
        ngx_memcpy(p, src->data, src->len);
    }

    return p;
}


void *
ngx_array_push(ngx_array_t *array)
{
    void  *elts;

    if (array->nelts == array->nalloc) {

        elts = ngx_palloc(array->pool, 2 * array->nalloc * array->size);
        if (elts == NULL) {
            return NULL;
        }

        ngx_memcpy(elts, array->elts, array->nelts * array->size);

        array->elts = elts;
        array->nalloc *= 2;
    }

    return (u_char *) array->elts + array->size * array->nelts++;
}


/* a tree is a list here: each node is the right child of another */

void
ngx_rbtree_insert(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    node->left = tree->sentinel;
    node->right = tree->root;
    tree->root = node;
}


void
ngx_rbtree_delete(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    ngx_rbtree_node_t  **p;

    for (p = &tree->root; *p != node; p = &(*p)->right) { /* void */ }

    *p = node->right;
}


ngx_rbtree_node_t *
ngx_rbtree_next(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    return (node->right == tree->sentinel) ? NULL : node->right;
}


void
ngx_str_rbtree_insert_value(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    abort();
}


ngx_str_node_t *
ngx_str_rbtree_lookup(ngx_rbtree_t *tree, ngx_str_t *name, uint32_t hash)
{
    ngx_str_node_t     *n;
    ngx_rbtree_node_t  *node;

    for (node = tree->root; node != tree->sentinel; node = node->right) {
        n = (ngx_str_node_t *) node;

        if (node->key == hash
            && n->str.len == name->len
            && ngx_memcmp(n->str.data, name->data, name->len) == 0)
        {
            return n;
        }
    }

    return NULL;
}


ngx_int_t
ngx_memn2cmp(u_char *s1, u_char *s2, size_t n1, size_t n2)
{
    int  rc;

    rc = memcmp(s1, s2, ngx_min(n1, n2));

    return rc ? rc : (n1 < n2) ? -1 : (n1 > n2);
}


ngx_int_t
ngx_atoi(u_char *line, size_t n)
{
    ngx_int_t  value;

    if (n == 0) {
        return NGX_ERROR;
    }

    for (value = 0; n; line++, n--) {

        if (*line < '0' || *line > '9' || value > NGX_MAX_INT_T_VALUE / 10 - 1)
        {
            return NGX_ERROR;
        }

        value = value * 10 + (*line - '0');
    }

    return value;
}


ngx_int_t
ngx_hextoi(u_char *line, size_t n)
{
    return (n == 1 && strchr("0123456789abcdefABCDEF", *line) && *line)
           ? 0 : NGX_ERROR;
}


u_char *
ngx_hex_dump(u_char *dst, u_char *src, size_t len)
{
    abort();
}


void
ngx_sha1_init(ngx_sha1_t *ctx)
{
    abort();
}


void
ngx_sha1_update(ngx_sha1_t *ctx, const void *data, size_t size)
{
    abort();
}


void
ngx_sha1_final(u_char result[20], ngx_sha1_t *ctx)
{
    abort();
}


/* two names of this node: one of the shard, and one of no shard */

ngx_int_t
ngx_http_dsem_figures_names(ngx_pool_t *pool, ngx_uint_t most,
    ngx_array_t *names)
{
    ngx_uint_t                      i;
    ngx_http_dsem_counters_name_t  *name;

    static ngx_str_t  both[] = { ngx_string("s0"), ngx_string("own") };

    if (ngx_array_init(names, pool, 2, sizeof(ngx_http_dsem_counters_name_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < 2; i++) {
        name = ngx_array_push(names);
        name->name = both[i];
        name->busy = 0;
    }

    return NGX_OK;
}


/* texts */

static ngx_uint_t
text_below(ngx_uint_t n)
{
    uint64_t  z;

    text_seed += 0x9e3779b97f4a7c15;

    z = (text_seed ^ (text_seed >> 30)) * 0xbf58476d1ce4e5b9;

    return (z ^ (z >> 29)) % n;
}


static void __attribute__((format(printf, 1, 2)))
text_add(const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    text_len += vsnprintf((char *) text_buf + text_len, TEXT_SIZE - text_len,
                          fmt, args);
    va_end(args);

    if (text_len >= TEXT_SIZE) {
        abort();
    }
}


static void
text_ok(ngx_uint_t ok, const char *name)
{
    printf("%s %s\n", ok ? "ok" : "not ok", name);
}


/* as inspect replies, without the last newline */

static void
text_good(ngx_uint_t names)
{
    ngx_uint_t  i, k;

    text_len = 0;
    text_add("shard 123 456 0 %d\n", TEXT_SESSIONS);

    for (i = 0; i < names; i++) {
        text_add("semaphore s%lu %lu 2 %s 20 - %lu 0\n", (unsigned long) i,
                 (unsigned long) (2 * TEXT_SESSIONS), i % 2 ? "-" : "12",
                 (unsigned long) (i % 2));

        for (k = 0; k < TEXT_SESSIONS; k++) {
            text_add("account node-%lu:%lu:0123456789abcdef 2 1 3 4000 %d\n",
                     (unsigned long) k / 2, (unsigned long) k, k != 1);
        }

        text_add("asks 30 node-9\n");
        text_add("auto 1 200 12 3 30000 41000\n");
        text_add("history 9000 100 10 2 1500 14 2 8700 12 3\n");
    }

    text_len--;
}


/* bytes changed, cut, left out, repeated; words replaced */

static void
text_mutate(void)
{
    size_t       at, len, n;
    const char  *word;

    static const char  *words[] = {
        "", " ", "\n", "-", "--1", "-5", "99999999999999999999", "1e3", "x",
        "semaphore ", "account ", "asks ", "shard ", "cursor ", "name ",
        "auto ", "history ", "node ",
        "\nsemaphore s0 0 0 - - - 0 0", "account :0:0 1 1 1 1 1",
        "account a:0: 1 1 1 1 1", "account a:0:g 1 1 1 1 1", "\r\n", "%", "~"
    };

    for (n = 1 + text_below(3); n && text_len; n--) {

        at = text_below(text_len);
        len = 1 + text_below(ngx_min(text_len - at, 60));

        switch (text_below(6)) {

        case 0:
            text_buf[at] = text_below(256);
            break;

        case 1:
            text_len = at;
            break;

        case 2:
            ngx_memmove(text_buf + at, text_buf + at + len,
                        text_len - at - len);
            text_len -= len;
            break;

        case 3:
            ngx_memmove(text_buf + at + len, text_buf + at, text_len - at);
            text_len += len;
            break;

        default:
            word = words[text_below(sizeof(words) / sizeof(words[0]))];
            len = strlen(word);
            ngx_memmove(text_buf + at + len, text_buf + at, text_len - at);
            ngx_memcpy(text_buf + at, word, len);
            text_len += len;
        }
    }
}


static ngx_http_dsem_fleet_t *
text_fleet(ngx_uint_t names)
{
    char                    name[16];
    ngx_str_t               str;
    ngx_uint_t              i;
    ngx_http_dsem_fleet_t  *fleet;

    fleet = ngx_http_dsem_fleet_create();

    for (i = 0; i < names && fleet; i++) {
        str.data = (u_char *) name;
        str.len = snprintf(name, sizeof(name), "s%lu", (unsigned long) i);

        if (ngx_http_dsem_fleet_add(fleet, &str, 0) == NULL) {
            ngx_http_dsem_fleet_destroy(fleet);
            return NULL;
        }
    }

    return fleet;
}


/* reads what is in the buffer, out of memory that ends where the text does */

static ngx_int_t
text_read(ngx_http_dsem_fleet_t *fleet, ngx_uint_t names)
{
    u_char     *p;
    ngx_int_t   rc;
    ngx_str_t   text;

    p = malloc(text_len);
    ngx_memcpy(p, text_buf, text_len);

    text.data = p;
    text.len = text_len;

    rc = fleet ? ngx_http_dsem_inspect_read(fleet, 0, names, 1, &text)
               : ngx_http_dsem_roster_read(0, &text);

    free(p);

    return rc;
}


static ngx_int_t
text_round(ngx_uint_t names, ngx_uint_t mutate)
{
    ngx_int_t               rc;
    ngx_http_dsem_fleet_t  *fleet;

    text_good(names);

    if (mutate) {
        text_mutate();
    }

    fleet = text_fleet(names);
    if (fleet == NULL) {
        return NGX_ERROR;
    }

    rc = text_read(fleet, names);

    if (rc == NGX_OK) {
        ngx_http_dsem_fleet_complete(fleet);
    }

    ngx_http_dsem_fleet_destroy(fleet);

    return rc;
}


/* a right text, with all that is in it */

static void
text_right(void)
{
    ngx_str_t                          name = ngx_string("s2");
    ngx_str_t                          met = ngx_string("node-0");
    ngx_http_dsem_fleet_t             *fleet;
    ngx_http_dsem_holder_t            *holder;
    ngx_http_dsem_survey_node_t       *node;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    text_good(TEXT_NAMES);

    fleet = text_fleet(TEXT_NAMES);
    node = ngx_http_dsem_fleet_push(fleet, &fleet->survey.nodes,
                                    sizeof(ngx_http_dsem_survey_node_t), &met);

    text_ok(text_read(fleet, TEXT_NAMES) == NGX_OK, "right text read");

    ngx_http_dsem_fleet_complete(fleet);

    text_ok(fleet->survey.nsessions == TEXT_SESSIONS
            && fleet->survey.semaphores.nelts == TEXT_NAMES
            && fleet->nsessions == TEXT_SESSIONS,
            "all sessions and names");

    text_ok(node->holding == 2, "sessions of a node, each counted once");

    semaphore = ngx_http_dsem_text_find(&fleet->survey.semaphores, &name);

    text_ok(semaphore
            && semaphore->held == 2 * TEXT_SESSIONS
            && semaphore->waiting == 2
            && semaphore->limit == 12
            && semaphore->configured == 20
            && semaphore->ordered == -1
            && !semaphore->paused
            && !semaphore->order
            && semaphore->in_redis
            && semaphore->disagreements.nelts == 1
            && semaphore->found
            && semaphore->found->min == 1
            && semaphore->found->max == 200
            && semaphore->found->limit == 12
            && semaphore->found->reason == 3
            && semaphore->found->floor == 30000
            && semaphore->found->latency == 41000
            && semaphore->found->moves.nelts == 3
            && semaphore->holders.nelts == TEXT_SESSIONS, "a semaphore");

    holder = semaphore->holders.elts;
    holder++;

    text_ok(holder->worker == 1
            && holder->node.len == 6
            && ngx_memcmp(holder->node.data, "node-0", 6) == 0
            && holder->held == 2
            && holder->idle == 2
            && holder->lease == 4000
            && !holder->heard, "a session");

    ngx_http_dsem_fleet_destroy(fleet);
}


/* a right text with one part replaced, which must be rejected */

static void
text_corpus(void)
{
    char         *p;
    size_t        at, from, to, rest;
    ngx_uint_t    i, rejected;

    static const char  *parts[][2] = {
        { "shard 123", "shore 123" }, { "shard 123", "shard x" },
        { " 456 0 5\n", " 456 0\n" }, { " 456 0 5\n", " 456 0 5 5\n" },
        { "shard 123 456 0 5\n", "" }, { "\nsemaphore", "\n\nsemaphore" },
        { "semaphore s0 ", "semaphore s1 " }, { "semaphore s0 ", "semaphore " },
        { "semaphore s0 ", "semaphore  s0 " },
        { "semaphore s0 10", "semaphora s0 10" },
        { "s0 10 2", "s0 x 2" }, { "s0 10 2", "s0 10 " }, { "12 20", "12x 20" },
        { "20 - 0 0", "20 -0 0 0" }, { "20 - 0 0", "20 - 0" },
        { "20 - 0 0", "20 - 0 0 0" }, { "20 - 0 0\n", "20 - 0 0 \n\n" },
        { "12 20", "99999999999999999 20" }, { "- 0 0\n", "- 0 0" },
        { "account node-0:0:", "account node-0:0" },
        { "account node-0:0:", "account :0:" },
        { "account node-0:0:", "account node-0::" },
        { "account node-0:0:", "account node-0:x:" },
        { "account node-0:0:", "account node 0:0:" },
        { "account node-0:0:", "account no{de:0:" },
        { "account node-0:0:", "account no\x1b[1m:0:" },
        { "0123456789abcdef 2", "0123456789abcdeg 2" },
        { "0123456789abcdef 2", " 2" },
        { " 3 4000 1\n", " 3 4000\n" }, { " 3 4000 1\n", " 3 4000 1 1\n" },
        { " 3 4000 1\n", " 3 - 1\n" }, { "asks 30 node-9", "asks node-9" },
        { "asks 30 node-9", "asks 30 " }, { "asks 30 node-9", "asks 30 a b" },
        { "asks 30 node-9", "asks 30 a:b" }, { "asks 30 node-9", "ask 30 a" },
        { "semaphore s0", "account a:0:0 1 1 1 1 1\nsemaphore s0" },
        { "semaphore s0", "asks 1 a\nsemaphore s0" },
        { "semaphore s0", "auto 1 2 1 0 0 0\nsemaphore s0" },
        { "semaphore s0", "history\nsemaphore s0" },
        { "auto 1 200", "history 1 2 3\nauto 1 200" },
        { "auto 1 200", "auto 1 2 1 0 0 0\nauto 1 200" },
        { "auto 1 200", "auto 1" }, { "auto 1 200", "auto 1 200 7" },
        { "auto 1 200", "auto - 200" },
        { "history 9000", "history x" }
    };

    rejected = 0;

    for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        text_good(1);
        text_buf[text_len] = '\0';

        p = strstr((char *) text_buf, parts[i][0]);
        if (p == NULL) {
            printf("no \"%s\"\n", parts[i][0]);
            continue;
        }

        at = p - (char *) text_buf;
        from = strlen(parts[i][0]);
        to = strlen(parts[i][1]);
        rest = text_len - at - from;

        ngx_memmove(p + to, p + from, rest);
        ngx_memcpy(p, parts[i][1], to);
        text_len = at + to + rest;

        if (text_reject(1)) {
            rejected++;

        } else {
            printf("read: \"%s\" for \"%s\"\n", parts[i][1], parts[i][0]);
        }
    }

    text_ok(rejected == i, "each wrong part rejected");

    /* as many as the array has room for */

    text_good(17);
    text_ok(text_reject(16), "a semaphore too many rejected");

    text_good(1);
    text_ok(text_reject(2), "a semaphore too few rejected");
}


static ngx_uint_t
text_reject(ngx_uint_t names)
{
    ngx_int_t               rc;
    ngx_http_dsem_fleet_t  *fleet;

    fleet = text_fleet(names);
    rc = text_read(fleet, names);

    ngx_http_dsem_fleet_destroy(fleet);

    return rc == NGX_DECLINED;
}


static void
text_wrong(ngx_uint_t rounds)
{
    ngx_uint_t  i, read, rejected;

    read = 0;
    rejected = 0;

    for (i = 0; i < rounds; i++) {

        switch (text_round(1 + text_below(TEXT_NAMES), 1)) {

        case NGX_OK:
            read++;
            break;

        case NGX_DECLINED:
            rejected++;
            break;
        }
    }

    printf("note %lu read, %lu rejected\n", (unsigned long) read,
           (unsigned long) rejected);

    text_ok(read > rounds / 100 && rejected > rounds / 2
            && read + rejected == rounds, "wrong text survived");
}


static void text_nodes(void);


static void
text_names(ngx_uint_t rounds)
{
    ngx_uint_t              i, k;
    ngx_http_dsem_fleet_t  *fleet;

    ngx_http_dsem_roster_init();

    for (i = 0; i < rounds; i++) {
        text_len = 0;
        text_add("cursor %lu\n", (unsigned long) text_below(2));

        for (k = text_below(20); k; k--) {
            text_add("name n%lu\nnode n%lu 1 9\n",
                     (unsigned long) text_below(3000),
                     (unsigned long) text_below(3000));
        }

        text_mutate();
        (void) text_read(NULL, 0);
    }

    text_ok(1, "wrong names survived");

    text_len = 0;
    text_add("cursor 17\n");

    for (i = 0; i < 5000; i++) {
        text_add("name m%lu\n", (unsigned long) i);
    }

    fleet = text_fleet(0);

    text_ok(text_read(NULL, 0) == NGX_OK
            && ngx_http_dsem_roster_add(fleet, 1) == NGX_OK
            && fleet->survey.semaphores.nelts == 1000
            && fleet->survey.partial, "names bounded");

    ngx_http_dsem_fleet_destroy(fleet);

    /* two passes that meet nothing but one name */

    for (i = 0; i < 2; i++) {
        text_len = 0;
        text_add("cursor 0\nname s0\nname bad name");
        (void) text_read(NULL, 0);
    }

    fleet = text_fleet(0);

    text_ok(ngx_http_dsem_roster_add(fleet, 1) == NGX_OK
            && fleet->survey.semaphores.nelts == 2
            && !fleet->survey.partial, "names forgotten, and merged");

    ngx_http_dsem_fleet_destroy(fleet);

    text_nodes();

    ngx_http_dsem_roster_free();
}


/* the sessions of "a" and "b", as a survey has them; a pass may have steps */

static ngx_uint_t
text_node_sessions(const char *step, const char *last)
{
    ngx_uint_t                    i, sum;
    ngx_http_dsem_fleet_t        *fleet;
    ngx_http_dsem_survey_node_t  *node;

    text_len = 0;
    text_add("cursor 7\n%s", step);
    (void) text_read(NULL, 0);

    text_len = 0;
    text_add("cursor 0\n%s", last);
    (void) text_read(NULL, 0);

    fleet = text_fleet(0);
    sum = 0;

    if (ngx_http_dsem_roster_add(fleet, 1) == NGX_OK) {
        ngx_http_dsem_fleet_sort(fleet);
        node = fleet->survey.nodes.elts;

        for (i = 0; i < fleet->survey.nodes.nelts; i++) {
            sum += node[i].sessions * ((node[i].node.data[0] == 'a') ? 1 : 100);
        }
    }

    ngx_http_dsem_fleet_destroy(fleet);

    return sum;
}


static void
text_nodes(void)
{
    ngx_uint_t              i;
    ngx_http_dsem_fleet_t  *fleet;

    text_ok(text_node_sessions("node a 3 100\nnode b 1 0", "node a 2 50")
            == 105,
            "nodes: sessions of all steps");
    text_ok(text_node_sessions("node b 4 0", "node a 1") == 105,
            "nodes: bad text is left out");
    text_ok(text_node_sessions("", "node b 2 7") == 600,
            "nodes: gone with a pass that meets none");

    text_len = 0;
    text_add("cursor 0\n");

    for (i = 0; i < 3000; i++) {
        text_add("node c%lu 1 0\n", (unsigned long) i);
    }

    fleet = text_fleet(0);

    text_ok(text_read(NULL, 0) == NGX_OK
            && ngx_http_dsem_roster_add(fleet, 1) == NGX_OK
            && fleet->survey.nodes.nelts == NGX_HTTP_DSEM_ROSTER_MAX_NODES - 1,
            "nodes bounded");

    ngx_http_dsem_fleet_destroy(fleet);
}


/* each allocation fails once */

static void
text_memory(void)
{
    size_t      i;
    ngx_int_t   rc;

    i = 0;

    do {
        text_fail_at = ++i;
        rc = text_round(TEXT_NAMES, 0);
    } while (rc == NGX_ERROR);

    text_fail_at = 0;

    text_ok(rc == NGX_OK && i > 30, "no memory, no crash");
}


int
main(int argc, char **argv)
{
    ngx_uint_t  rounds;

    rounds = (argc > 1) ? strtoul(argv[1], NULL, 10) : 1000;

    ngx_cycle = &text_cycle;
    ngx_crc32_table_short = text_crc32;

    text_right();
    text_corpus();
    text_wrong(rounds);
    text_memory();

    text_ok(text_pieces == 0, "no memory left");

    text_names(rounds);

    return 0;
}
