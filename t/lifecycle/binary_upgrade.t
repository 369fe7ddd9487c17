#!/usr/bin/perl

# The binary is upgraded under load, rolled back, and upgraded again. The two
# masters share neither memory nor workers, and keep one limit.

use lib 't/lib';
use List::Util qw(max);

use Dsem::Test;

my $LIMIT = 5;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(service => 0.020);

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
location /upgraded {
    dsem api limit=5 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub sessions {
    return scalar grep { /^n1:/ } $t->state->sessions;
}

sub pid_in {
    my ($file) = @_;
    open my $fh, '<', $node->dir . "/$file" or return 0;
    return <$fh> // 0;
}

my $load;

sub goes_on {
    my ($what) = @_;
    my $before = $up->peak;
    $up->reset;
    wait_for { $up->served > 50 && $up->peak >= $LIMIT } 10,
        'the load to go on';
    is max($before, $up->peak), $LIMIT, "$what: limit reached, never exceeded";
}

$load = $t->load_start(urls => [ map { $_->url('/upgraded') } $node, $other ],
    clients => 30, seconds => 600);
goes_on('before');

# forward, half way

my $old = $node->pid;
$node->signal('USR2');
wait_for { pid_in('nginx.pid.oldbin') == $old && pid_in('nginx.pid') } 15,
    'a new master';
chomp(my $new = pid_in('nginx.pid'));
eventually { $node->workers($new) == 2 && sessions() == 4 }
    'two generations of sessions';
goes_on('both');
kill 'WINCH', $old;
eventually { !$node->workers($old) } 'old workers exiting';
eventually { sessions() == 2 } 'sessions of new workers';
goes_on('new');

# and back

kill 'HUP', $old;
eventually { $node->workers($old) == 2 && sessions() == 4 }
    'old master has workers again';
goes_on('both again');
kill 'QUIT', $new;
eventually { pid_in('nginx.pid') == $old } 'new master gone';
eventually { sessions() == 2 } 'sessions of old workers';
goes_on('old');

# and forward for good

$node->upgrade;
isnt $node->pid, $old, 'new master';
eventually { sessions() == 2 } 'sessions of new workers';
goes_on('after');

my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'no request lost'
    or diag explain $result->{statuses};
is $result->{mismatched}, 0, 'each response complete';
eventually { !$t->state->exists('api') } 'nothing held, none waiting';
is scalar(map { $_->grep_log(qr/\[warn\]|lease of/) } $node, $other), 0,
    'no lease expired';
is scalar($node->grep_log(qr/dsem: version \d/)), 3,
    'version logged by each master, once';

$t->done;
