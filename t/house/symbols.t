#!/usr/bin/perl

# The module needs no symbol that an nginx with the same signature may lack, and
# shares none with another module.  nchan, which contains its own hiredis and
# exports it, is loaded before the module and after it: both modules work, and
# no worker dies.

use lib 't/lib';
use Dsem::Test;

# What each nginx with the same signature has, which --with-compat makes equal.
# One without a module that is left out by default (ngx_http_ssl_module), or
# without its library (ngx_ssl_...), would not load a module that needs these.
# t/package/compat tries it.
my %NGINX = map { $_ => 1 } qw(
    ngx_alloc ngx_alloc_chain_link ngx_array_create ngx_array_push
    ngx_array_push_n ngx_atoi ngx_atoof ngx_cached_time ngx_calloc
    ngx_close_connection ngx_cmp_sockaddr ngx_conf_full_name
    ngx_conf_log_error ngx_conf_set_enum_slot ngx_conf_set_flag_slot
    ngx_conf_set_num_slot ngx_connection_counter ngx_connection_error
    ngx_core_module ngx_crc32_table_short ngx_create_pool ngx_create_temp_buf
    ngx_current_msec ngx_cycle ngx_destroy_pool ngx_escape_uri
    ngx_event_actions ngx_event_timer_rbtree ngx_exiting ngx_explicit_memzero
    ngx_filename_cmp ngx_free_connection ngx_get_connection
    ngx_handle_read_event ngx_handle_write_event ngx_hex_dump ngx_hextoi
    ngx_http_add_variable ngx_http_auth_basic_user ngx_http_block_reading
    ngx_http_cleanup_add ngx_http_compile_complex_value ngx_http_complex_value
    ngx_http_core_module ngx_http_core_post_access_phase
    ngx_http_core_run_phases ngx_http_discard_request_body
    ngx_http_finalize_request ngx_http_max_module ngx_http_module
    ngx_http_output_filter ngx_http_read_client_request_body
    ngx_http_request_empty_handler ngx_http_run_posted_requests
    ngx_http_script_flush_complex_value ngx_http_script_variables_count
    ngx_http_send_header ngx_http_test_reading ngx_http_top_header_filter
    ngx_http_upstream_init_round_robin ngx_http_upstream_module ngx_inet6_addr
    ngx_inet_addr ngx_inet_get_port ngx_inet_set_port ngx_list_push
    ngx_log_error_core ngx_memn2cmp ngx_pagesize ngx_palloc ngx_parse_size
    ngx_parse_time ngx_parse_url ngx_pcalloc ngx_pid ngx_pnalloc
    ngx_pool_cleanup_add ngx_posted_events ngx_posted_next_events ngx_process
    ngx_pstrdup ngx_rbtree_delete ngx_rbtree_insert ngx_rbtree_next
    ngx_read_file ngx_regex_exec ngx_resolve_name ngx_resolve_name_done
    ngx_resolve_start ngx_resolver_strerror ngx_rwlock_rlock ngx_rwlock_unlock
    ngx_rwlock_wlock ngx_sha1_final ngx_sha1_init ngx_sha1_update
    ngx_shared_memory_add ngx_slab_calloc ngx_slprintf ngx_snprintf
    ngx_sock_ntop ngx_sprintf ngx_str_rbtree_insert_value
    ngx_str_rbtree_lookup ngx_strerror ngx_strlcasestrn ngx_strncasecmp
    ngx_strnstr ngx_terminate ngx_test_config ngx_time_update ngx_unescape_uri
    ngx_utf8_decode ngx_vslprintf ngx_worker
);

my $NCHAN = '/usr/lib/nginx/modules/ngx_nchan_module.so';

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%FIRST%%
%%GLOBALS%%
%%LAST%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse off;
    nchan_redis_url redis://%%REDIS%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /capped {
            dsem api limit=2 queue=100;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /channel {
            nchan_pubsub;
            nchan_channel_id %%NODE%%;
            nchan_use_redis on;
        }
    }
}
EOF_CONF

my @before = (FIRST => "load_module $NCHAN;", LAST => '');
my @after = (FIRST => '', LAST => "load_module $NCHAN;");

# what nginx and other modules can see

my $static = $ENV{DSEM_STATIC_NGINX};
my $file = $static ? $ENV{DSEM_NGINX} : Dsem::Node::Conf->module;
my @defined = symbols('--defined-only', $file);

is_deeply(\@defined, [qw(ngx_http_dsem_module ngx_module_names
    ngx_module_order ngx_modules)], 'exported by the module') unless $static;
is_deeply([grep { /redis|^sds/ && !/^ngx_/ } @defined], [],
    'no hiredis exported');
is_deeply([grep { /redis/ && !/^ngx_/ } symbols('--undefined-only', $file)],
    [], 'no hiredis imported');

is_deeply([grep { /^ngx_/ && !$NGINX{$_} } symbols('--undefined-only', $file)],
    [], 'needs what each nginx has') unless $static;

# with the other module

SKIP: {
    my $reason = unusable();
    skip $reason, 1 if $reason;

    works_with($t->node('before', $conf, @before));
    works_with($t->node('after', $conf, @after));
}

done_testing();

###############################################################################

sub symbols {
    my ($which, $path) = @_;
    open my $fh, '-|', 'nm', '-D', '-j', $which, $path or die "nm: $!";
    return sort map { chomp; s/@.*//r } <$fh>;
}

# A sentence where this nginx and the packaged nchan are no pair.
sub unusable {
    return "$NCHAN is missing" if !-e $NCHAN;
    my ($status, $said) = $t->test_conf($conf, @before);
    return $said =~ /(module "\S+" (?:version|is not binary).*)/ ? $1 : '';
}

sub works_with {
    my ($node) = @_;
    my $name = 'nchan ' . $node->name;
    my @workers = $node->workers;

    my $load = $t->load(urls => [$node->url('/capped?t=2')], clients => 20,
        requests => 300);
    is_deeply($load->{statuses}, { 200 => 300 }, "$name: requests served");
    is($up->peak, 2, "$name: limit reached, not exceeded");
    eventually { $t->state->held('api') == 0 } "$name: permits released";

    my $posted;
    eventually {
        $posted = $node->get('/channel', -method => 'POST', -body => $name);
        $posted->status =~ /^20[12]$/;
    } "$name: message published";
    is($node->get('/channel')->body, $name, "$name: message delivered");

    is_deeply([$node->workers], \@workers, "$name: same workers");
    is(scalar $node->grep_log(qr/exited on signal/), 0,
        "$name: no worker died");
    $up->reset;
}
