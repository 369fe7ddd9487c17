#!/usr/bin/perl

# The machine of a node was suspended for an hour between two heartbeats. The
# leases of its workers have expired: no request is admitted on the next grant
# before the session has begun anew.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t);
$t->redis;
my $up = $t->upstream;

my $node = do {
    local $ENV{LD_PRELOAD} = $clock->{library};
    local $ENV{DSEM_CLOCK} = $clock->{file};
    local $ENV{DSEM_CLOCK_BOOTTIME} = 1;
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:verify_asan_link_order=0"
        if $ENV{ASAN_OPTIONS};
    $t->node('a', <<'EOF_CONF');
worker_processes 1;
location /limited {
    dsem api limit=2 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
};

sub epoch {
    my ($entry) = values %{ $t->state->entries };
    return $entry ? $entry->{epoch} : 0;
}

sub resynchronized {
    return $node->grep_log(qr/resynchronizing with redis \(lease may/);
}

eventually { $node->get('/limited?t=1')->status == 200 } 'request served';
my $epoch = epoch();

# a heartbeat between the step and the request would renew the lease

my ($steps, %statuses) = (0);
eventually {
    $clock->step(3600);
    $steps++;
    $statuses{ $node->get('/limited?t=1')->status }++;
    resynchronized();
} 'lease found to have expired';
is_deeply \%statuses, { 200 => $steps }, 'every request served';
eventually { epoch() > $epoch } 'session begun anew';

$t->done;
