
/*
 * Passwords of directives: read, made ready to be sent, and wiped.
 *
 * A password goes into memory of its own as soon as it has been read, and is
 * part of no message.  Whatever becomes of the directive, it is wiped wherever
 * nginx has read it.
 *
 * Called by: conf_redis.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_resp.h"


/* of a user and of a password, bytes */
#define NGX_HTTP_DSEM_MAX_SECRET     512

/* a user, a password, and the rest of an AUTH command */
#define NGX_HTTP_DSEM_AUTH_SIZE      (2 * NGX_HTTP_DSEM_MAX_SECRET + 256)


static ngx_int_t ngx_http_dsem_conf_password(ngx_conf_t *cf,
    ngx_str_t *value, ngx_http_dsem_secret_t *password);
static ngx_int_t ngx_http_dsem_conf_password_file(ngx_conf_t *cf,
    ngx_str_t *path, ngx_http_dsem_secret_t *password);
static ngx_int_t ngx_http_dsem_conf_auth(ngx_conf_t *cf,
    ngx_http_dsem_login_t *login, ngx_str_t *user,
    ngx_http_dsem_secret_t *password);
static void ngx_http_dsem_conf_auth_cleanup(void *data);
static void ngx_http_dsem_conf_wipe_directive(u_char *start, u_char *last,
    ngx_str_t *name, ngx_uint_t all);
static void ngx_http_dsem_conf_wipe_registers(ngx_buf_t *b);
static void ngx_http_dsem_conf_wipe_text(u_char *start, u_char *last,
    ngx_uint_t all, ngx_uint_t word);
static u_char *ngx_http_dsem_conf_word_end(u_char *start, u_char *p,
    u_char *last);
static ngx_uint_t ngx_http_dsem_conf_one_of(u_char ch, const char *bytes);


/*
 * names and value: of the user, the password and its file, in this order; data
 * is NULL where none is given.  The login is freed with the pool of cf.
 * NGX_ERROR: a message has been logged.
 */

ngx_int_t
ngx_http_dsem_conf_login(ngx_conf_t *cf, ngx_http_dsem_login_t *login,
    ngx_str_t *names, ngx_str_t *value)
{
    ngx_int_t                rc;
    ngx_http_dsem_secret_t   password;

    if (value[1].data && value[2].data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "both \"%V\" and \"%V\" in \"dsem_redis\" "
                           "directive", &names[1], &names[2]);
        return NGX_ERROR;
    }

    if (value[1].data == NULL && value[2].data == NULL) {

        if (value[0].data) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" without \"%V\" in \"dsem_redis\" "
                               "directive", &names[0], &names[1]);
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    if (ngx_http_dsem_secret_create(&password, NGX_HTTP_DSEM_MAX_SECRET + 2)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    rc = value[1].data
         ? ngx_http_dsem_conf_password(cf, &value[1], &password)
         : ngx_http_dsem_conf_password_file(cf, &value[2], &password);

    if (rc == NGX_OK) {
        rc = ngx_http_dsem_conf_auth(cf, login, &value[0], &password);
    }

    ngx_http_dsem_secret_free(&password);

    return rc;
}


static ngx_int_t
ngx_http_dsem_conf_password(ngx_conf_t *cf, ngx_str_t *value,
    ngx_http_dsem_secret_t *password)
{
    if (value->len > NGX_HTTP_DSEM_MAX_SECRET) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "password in \"dsem_redis\" directive is longer "
                           "than %d bytes", NGX_HTTP_DSEM_MAX_SECRET);
        return NGX_ERROR;
    }

    ngx_memcpy(password->data, value->data, value->len);
    password->len = value->len;

    return NGX_OK;
}


/*
 * The first line of the file, which the master reads before it gives up its
 * rights.
 */

static ngx_int_t
ngx_http_dsem_conf_password_file(ngx_conf_t *cf, ngx_str_t *path,
    ngx_http_dsem_secret_t *password)
{
    u_char   *end;
    ssize_t   n;
    ngx_fd_t  fd;

    if (ngx_conf_full_name(cf->cycle, path, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    fd = ngx_open_file(path->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_open_file_n " password file \"%V\" failed",
                           path);
        return NGX_ERROR;
    }

    n = ngx_read_fd(fd, password->data, NGX_HTTP_DSEM_MAX_SECRET + 2);

    if (n == -1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_read_fd_n " password file \"%V\" failed",
                           path);
    }

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%V\" failed", path);
    }

    if (n == -1) {
        return NGX_ERROR;
    }

    end = ngx_strlchr(password->data, password->data + n, LF);
    n = end ? end - password->data : n;

    if (n && password->data[n - 1] == CR) {
        n--;
    }

    if (n == 0 || n > NGX_HTTP_DSEM_MAX_SECRET) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the first line of password file \"%V\" must have "
                           "1 to %d bytes", path, NGX_HTTP_DSEM_MAX_SECRET);
        return NGX_ERROR;
    }

    password->len = n;

    return NGX_OK;
}


/* the command is composed once: no connection has to copy the password */

static ngx_int_t
ngx_http_dsem_conf_auth(ngx_conf_t *cf, ngx_http_dsem_login_t *login,
    ngx_str_t *user, ngx_http_dsem_secret_t *password)
{
    ngx_pool_cleanup_t    *cln;
    ngx_http_dsem_resp_t   command;

    if (user->len > NGX_HTTP_DSEM_MAX_SECRET) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "user in \"dsem_redis\" directive is longer than "
                           "%d bytes", NGX_HTTP_DSEM_MAX_SECRET);
        return NGX_ERROR;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);

    if (cln == NULL
        || ngx_http_dsem_secret_create(&login->auth, NGX_HTTP_DSEM_AUTH_SIZE)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_dsem_conf_auth_cleanup;
    cln->data = &login->auth;

    ngx_memzero(&command, sizeof(ngx_http_dsem_resp_t));

    /* it never grows out of this memory */

    command.data = login->auth.data;
    command.size = login->auth.size;

    ngx_http_dsem_resp_begin(&command, user->len ? 3 : 2);
    ngx_http_dsem_resp_bytes(&command, "AUTH", sizeof("AUTH") - 1);

    if (user->len) {
        ngx_http_dsem_resp_string(&command, user);
    }

    ngx_http_dsem_resp_bytes(&command, password->data, password->len);

    login->auth.len = command.len;

    return NGX_OK;
}


static void
ngx_http_dsem_conf_auth_cleanup(void *data)
{
    ngx_http_dsem_secret_free(data);
}


/*
 * A directive was read: the passwords of its words are wiped, and those in the
 * text that they were read from: in the buffer of the file, what is read
 * already, and what an earlier part of the file has left behind; in the copy
 * for "nginx -T", which a build with debugging always has.  "all": all words
 * but the first, as one that is misspelled may be a password.
 */

void
ngx_http_dsem_conf_wipe(ngx_conf_t *cf, ngx_uint_t all)
{
    ngx_buf_t   *b, *dump;
    ngx_str_t   *word;
    ngx_uint_t   i;

    word = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        ngx_http_dsem_conf_wipe_text(word[i].data,
                                     word[i].data + word[i].len, all, 1);
    }

    if (cf->conf_file == NULL || cf->conf_file->buffer == NULL) {
        return;
    }

    b = cf->conf_file->buffer;
    dump = cf->conf_file->dump;

    ngx_http_dsem_conf_wipe_directive(b->start, b->pos, &word[0], all);
    ngx_http_dsem_conf_wipe_text(b->last, b->end, 0, 0);

    if (dump) {
        ngx_http_dsem_conf_wipe_directive(dump->start,
                                          dump->last - (b->last - b->pos),
                                          &word[0], all);
    }

    ngx_http_dsem_conf_wipe_registers(b);
}


/*
 * A copy of the text may leave some of it in vector registers, where it stays
 * as long as the master sleeps, and is in its core.  Another copy takes their
 * place: of what is wiped, and not needed any more.
 */

static void
ngx_http_dsem_conf_wipe_registers(ngx_buf_t *b)
{
    if (b->pos > b->start) {
        ngx_memmove(b->start, b->start + 1, b->pos - b->start - 1);
    }
}


/* the last directive of this name; the buffer may have lost its beginning */

static void
ngx_http_dsem_conf_wipe_directive(u_char *start, u_char *last,
    ngx_str_t *name, ngx_uint_t all)
{
    u_char  *p;

    for (p = last - name->len; p > start; p--) {
        if (ngx_memcmp(p, name->data, name->len) == 0) {
            start = p + name->len;
            break;
        }
    }

    ngx_http_dsem_conf_wipe_text(start, last, all, 0);
}


/* what follows each "password="; word: to the end, else to that of the word */

static void
ngx_http_dsem_conf_wipe_text(u_char *start, u_char *last, ngx_uint_t all,
    ngx_uint_t word)
{
    u_char  *p, *end;
    size_t   len;

    static u_char  name[] = "password=";

    if (all) {
        ngx_memset(start, 'x', last - start);
        return;
    }

    len = sizeof(name) - 1;

    for (p = start; p + len <= last; p++) {

        if (ngx_memcmp(p, name, len) == 0) {
            end = word ? last : ngx_http_dsem_conf_word_end(start, p, last);
            p += len;
            ngx_memset(p, 'x', end - p);
            p = end;
        }
    }
}


/*
 * As nginx reads it: to the quote that it began with, or a blank, ";" or "{"
 * that is not of "${".  The end is never before p.
 */

static u_char *
ngx_http_dsem_conf_word_end(u_char *start, u_char *p, u_char *last)
{
    u_char  quote, *word;

    for (word = p; word > start; word--) {
        if (ngx_http_dsem_conf_one_of(word[-1], " \t\r\n\"'")) {
            break;
        }
    }

    quote = (word > start && (word[-1] == '"' || word[-1] == '\''))
            ? word[-1] : 0;

    for ( /* void */ ; p < last; p++) {

        if (*p == '\\' || (*p == '$' && last - p > 1 && p[1] == '{')) {
            p++;

        } else if (quote ? *p == quote
                         : ngx_http_dsem_conf_one_of(*p, " \t\r\n;{"))
        {
            break;
        }
    }

    return ngx_min(p, last);
}


/* a zero is none of them */

static ngx_uint_t
ngx_http_dsem_conf_one_of(u_char ch, const char *bytes)
{
    return ch && ngx_strchr(bytes, ch) != NULL;
}
