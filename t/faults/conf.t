#!/usr/bin/perl

# While "nginx -t" reads a configuration with every directive, each allocation
# fails once, and each call to nginx and the system that can fail. nginx refuses
# the configuration, and does not crash.

use lib 't/lib';
use Dsem::Faults;
use Dsem::Test;

plan skip_all => Dsem::Faults::unusable() if Dsem::Faults::unusable();

my $t = Dsem::Test->new;
my $faults = Dsem::Faults->new($t);

my ($status, $errors) = $faults->test_conf(<<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    resolver 127.0.0.1;
    dsem_redis localhost:6379 user=u password=p;
    dsem_redis_connect_timeout 500ms;
    dsem_redis_timeout 1s;
    dsem_lease 5s;
    dsem_prefix p;
    dsem_node n1;
    dsem_zone_size 1m;
    dsem_max_waiting 100;
    dsem_status 503 full=429 timeout=504 error=599;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem a limit=2 queue=10 timeout=2s weight=1 priority=-1;
            dsem $arg_b limit=$arg_l weight=$arg_w priority=$arg_p
                queue=5 fair=$arg_f share=2;
            dsem_reuse off;
            dsem_retry_after 1s;
            dsem_on_error pass;
            dsem_dry_run on;
            dsem_wait_body off;
            dsem_release log;
            dsem_log_level warn;
            add_header X-All "$dsem_status $dsem_name $dsem_wait_time";
            add_header X-More "$dsem_queue_position $dsem_limit $dsem_in_use $dsem_key";
        }
        location /other { dsem b limit=2; dsem a limit=2; }
        location /off { dsem off; }
        location /auto { dsem c limit=auto min=2 max=9; }
        location /dsem/ { dsem_api write=on; deny all; }
    }
}
EOF_CONF

is $status, 0, 'accepted without faults' or diag $errors;

my @records = $faults->records;
cmp_ok scalar(@records), '>', 30, 'paths failed';

# 256: exit code 1
is_deeply [ grep { $_->{status} != 0 && $_->{status} != 256 } @records ], [],
    'no crash';

# a word of a message that is not written, or written as "?"
is_deeply [ grep { $_->{status} == 0 && $_->{call} ne 'ngx_palloc' } @records ],
    [], 'no fault overlooked';
cmp_ok scalar(grep { $_->{status} == 0 } @records), '<', 5,
    'nearly all refused';

$t->done;
