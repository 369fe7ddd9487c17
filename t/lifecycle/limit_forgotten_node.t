#!/usr/bin/perl

# A node was forgotten, and has a higher limit than the others. The lower one is
# in force for it, too. The node says so once, and again when it is news again.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
add_header X-Limit $dsem_limit always;
server {
    # both workers have requests, and learn each change
    listen 127.0.0.1:%%PORT%% reuseport;
    location /forgotten {
        dsem api limit=20 queue=200 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /alone {
        dsem alone limit=7 queue=200 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $forgotten = $t->node('forgotten', $conf);
my $cut = $conf =~ s/limit=20/limit=10/r =~ s/ alone / none /r;
my $other = $t->node('other', $cut);

wait_for { lowest() == 10 } 15, 'both nodes registered';

# asks only there
is peak('/forgotten', $forgotten), 10, "the other node's limit";
is peak('/forgotten', $forgotten, $other), 10, 'the same with both';
is $forgotten->get('/forgotten')->header('X-Limit'), 10, 'limit reported';
is peak('/alone', $forgotten), 7, 'a name that the other does not have';

wait_for { warnings($forgotten) } 15, 'the message';
my @said = warnings($forgotten);
is scalar(@said), 1, 'one warning for two workers' or diag @said;
like $said[0], qr/ limit of "api" is 10 in force \(node other asks for it\), this node asks for 20/,
    'both limits and the node';
is scalar(warnings($other)), 0, 'the other: no warning';

# a reload without a change says nothing new
$forgotten->reload($conf);
is peak('/forgotten', $forgotten), 10, 'reloaded: the same limit';
is scalar(warnings($forgotten)), 1, 'no other warning';

# the nodes agree, and differ again
$other->reload($conf);
wait_for { lowest() == 20 } 15, 'the lower limit withdrawn';
is peak('/forgotten', $forgotten), 20, 'agreement: the limit of both';
$other->reload($cut);
wait_for { lowest() == 10 } 15, 'the lower limit again';
is peak('/forgotten', $forgotten), 10, 'lower again';
eventually { warnings($forgotten) == 2 } 'a warning again';

$other->quit;
wait_for { lowest() == 20 } 15, 'its bye';
is peak('/forgotten', $forgotten), 20, 'the other has gone';

$t->done;

sub peak {
    my ($path, @nodes) = @_;
    wait_for { !Dsem::Teardown::left_in($redis) } 15, 'no permit held';
    $up->reset;
    my @requests = map {
        map { $_->begin("$path?hang=1") } @nodes
    } 1 .. 40 / @nodes;
    my $sem = $path eq '/alone' ? 'alone' : 'api';
    wait_for {
        my $held = $t->state->held($sem);
        $up->now == $held && $held + $t->state->waiting($sem) == @requests;
    } 15, 'all running or waiting';
    wait_for { $up->release_all; !grep { !$_->done } @requests } 15,
        'the end of all requests';
    return $up->peak;
}

sub warnings {
    my ($node) = @_;
    return $node->grep_log(qr/\[warn\].* dsem: limit of/);
}

# the lowest limit that a live configuration asks for
sub lowest { return $t->state->lowest_limit('api') }
