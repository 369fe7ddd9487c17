
/*
 * Passwords of directives: read, made ready to be sent, and wiped.
 *
 * A password goes into memory of its own as soon as it has been read, and is
 * part of no message.  Whatever becomes of the directive, it is wiped where
 * nginx has read it to.
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

/* a user, a password, and the rest of an AUTH command; then a file's text */
#define NGX_HTTP_DSEM_AUTH_SIZE      (2 * NGX_HTTP_DSEM_MAX_SECRET + 256)


static ngx_int_t ngx_http_dsem_conf_secret_file(ngx_conf_t *cf,
    ngx_str_t *path, ngx_str_t *password);
static void ngx_http_dsem_conf_secret_auth(ngx_http_dsem_secret_t *auth,
    ngx_str_t *user, ngx_str_t *password);
static void ngx_http_dsem_conf_secret_wipe_dump(ngx_buf_t *dump,
    ngx_str_t *word);
static u_char *ngx_http_dsem_conf_secret_spelled(u_char *p, u_char *last,
    ngx_str_t *word);


/*
 * names and value: of the user, the password and its file, in this order; data
 * is NULL where none is given.  The login is freed with the pool of cf.
 * NGX_ERROR: a message has been logged.
 */

ngx_int_t
ngx_http_dsem_conf_secret_login(ngx_conf_t *cf, ngx_http_dsem_login_t *login,
    ngx_str_t *names, ngx_str_t *value)
{
    ngx_int_t            rc;
    ngx_str_t            password;
    ngx_pool_cleanup_t  *cln;

    if (value[1].data && value[2].data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "both \"%V\" and \"%V\" in \"dsem_redis\" "
                           "directive", &names[1], &names[2]);
        return NGX_ERROR;
    }

    if (value[1].data == NULL && value[2].data == NULL) {

        if (value[0].data == NULL) {
            return NGX_OK;
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" without \"%V\" in \"dsem_redis\" "
                           "directive", &names[0], &names[1]);
        return NGX_ERROR;
    }

    password = value[1];
    cln = ngx_pool_cleanup_add(cf->pool, 0);

    if (cln == NULL
        || ngx_http_dsem_secret_create(&login->auth, NGX_HTTP_DSEM_AUTH_SIZE
                                       + NGX_HTTP_DSEM_MAX_SECRET + 2)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_dsem_secret_free;
    cln->data = &login->auth;

    if (value[2].data) {
        password.data = login->auth.data + NGX_HTTP_DSEM_AUTH_SIZE;
        rc = ngx_http_dsem_conf_secret_file(cf, &value[2], &password);

        if (rc != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (ngx_max(value[0].len, password.len) > NGX_HTTP_DSEM_MAX_SECRET) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s in \"dsem_redis\" directive is longer than "
                           "%d bytes", value[0].len > NGX_HTTP_DSEM_MAX_SECRET
                                      ? "user" : "password",
                           NGX_HTTP_DSEM_MAX_SECRET);
        return NGX_ERROR;
    }

    ngx_http_dsem_conf_secret_auth(&login->auth, &value[0], &password);

    return NGX_OK;
}


/*
 * The first line of the file, which the master reads before it gives up its
 * rights.
 */

static ngx_int_t
ngx_http_dsem_conf_secret_file(ngx_conf_t *cf, ngx_str_t *path,
    ngx_str_t *password)
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

static void
ngx_http_dsem_conf_secret_auth(ngx_http_dsem_secret_t *auth, ngx_str_t *user,
    ngx_str_t *password)
{
    ngx_http_dsem_resp_t  command;

    ngx_memzero(&command, sizeof(ngx_http_dsem_resp_t));

    /* it never grows out of this memory */

    command.data = auth->data;
    command.size = NGX_HTTP_DSEM_AUTH_SIZE;

    ngx_http_dsem_resp_begin(&command, user->len ? 3 : 2);
    ngx_http_dsem_resp_bytes(&command, "AUTH", sizeof("AUTH") - 1);

    if (user->len) {
        ngx_http_dsem_resp_string(&command, user);
    }

    ngx_http_dsem_resp_string(&command, password);

    auth->len = command.len;
}


/*
 * A directive was read: what nginx has of its passwords is wiped.  "all": all
 * words but the first, as one that is misspelled may be a password.  nginx
 * needs neither what it has read of a buffer, nor what is beyond its end; that
 * of "-g" is read again at a reload, and is in the command line anyway.
 */

void
ngx_http_dsem_conf_secret_wipe(ngx_conf_t *cf, ngx_uint_t all)
{
    ngx_buf_t        *b;
    ngx_str_t        *word;
    ngx_uint_t        i;
    ngx_conf_file_t  *file;

    file = cf->conf_file;
    word = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (all
            || ngx_strncmp(word[i].data, "password=", 9) == 0
            || ngx_strncmp(word[i].data, "sentinel_password=", 18) == 0)
        {
            if (file->file.fd != NGX_INVALID_FILE && file->dump) {
                ngx_http_dsem_conf_secret_wipe_dump(file->dump, &word[i]);
            }

            ngx_explicit_memzero(word[i].data, word[i].len);
        }
    }

    if (file->file.fd != NGX_INVALID_FILE) {
        b = file->buffer;

        ngx_explicit_memzero(b->start, b->pos - b->start);
        ngx_explicit_memzero(b->last, b->end - b->last);
    }
}


/* the copy for "nginx -T", which a build with debugging always has */

static void
ngx_http_dsem_conf_secret_wipe_dump(ngx_buf_t *dump, ngx_str_t *word)
{
    u_char  *p, *last;

    for (p = dump->start; p < dump->last; p++) {
        last = ngx_http_dsem_conf_secret_spelled(p, dump->last, word);

        /* an empty word is everywhere */

        if (last > p) {
            ngx_memset(p, 'x', last - p);
            p = last - 1;
        }
    }
}


/* the end of the word if the text begins with it, as it is spelled; or NULL */

static u_char *
ngx_http_dsem_conf_secret_spelled(u_char *p, u_char *last, ngx_str_t *word)
{
    u_char  ch, *q;
    size_t  i;

    static u_char        escaped[] = "\"'\\trn";
    static const u_char  meant[] = "\"'\\\t\r\n";

    for (i = 0; i < word->len && p < last; i++) {
        ch = *p++;

        if (ch == '\\' && p < last) {
            q = ngx_strlchr(escaped, escaped + sizeof(escaped) - 1, *p);

            if (q) {
                ch = meant[q - escaped];
                p++;
            }
        }

        if (ch != word->data[i]) {
            return NULL;
        }
    }

    return i == word->len ? p : NULL;
}
