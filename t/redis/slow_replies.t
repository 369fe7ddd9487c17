#!/usr/bin/perl

# Redis is unavailable when a connect or a command has had no reply in time,
# and only then. After a reload, a reset connection, CLIENT KILL or a slow
# reply no request is refused, and no warning is logged.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);
my $proxy = $t->proxy($redis->address);

my @fleet = $t->fleet(2, <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 2;
dsem_redis_connect_timeout 5s;
dsem_redis_timeout 5s;
# so that connections are good soon, and pauses short
dsem_lease 2s;
dsem_status 503 error=500;
server {
    listen 127.0.0.1:%%PORT%%;
    location /rejected {
        dsem api limit=3 queue=100 timeout=20s;
        dsem_on_error reject;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub lines {
    my ($re) = @_;
    return map { $_->grep_log($re) } @fleet;
}

sub not_away {
    my ($name, $what) = @_;
    $up->reset;
    $_->clear_logs for @fleet;
    my $load = $t->load_start(clients => 20, seconds => 3600,
        urls => [ map { $_->url('/rejected') } @fleet ]);
    my $goes_on = sub {
        my $served = $up->served;
        wait_for { $up->served > $served + 10 } 15, 'load';
    };
    for (1 .. 3) {
        $goes_on->();
        $what->();
    }
    $goes_on->();
    my $statuses = $load->stop->wait->{statuses};
    is_deeply [ keys %$statuses ], [200], "$name: no request refused"
        or diag explain $statuses;
    is $up->peak, 3, "$name: limit reached, never exceeded";
    is_deeply [ grep { !/"dsem_redis_timeout" is longer/ }
        lines(qr/dsem.*unavailable|\[(?:warn|error|crit)\].*dsem/) ], [],
        "$name: redis stays available";
}

not_away('reload', sub { $_->reload for @fleet });
not_away('reset', sub { $proxy->reset });
not_away('end', sub { $proxy->cut });
not_away('client kill', sub { $redis->client_kill });
not_away('subscription killed',
    sub { $redis->cmd(qw(CLIENT KILL TYPE pubsub)) });
not_away('slow', sub { $proxy->delay(0.02) });

$t->done;
