#!/usr/bin/perl

# An operator's order is in force instead of the limit that was found, at once
# and until it ends; meanwhile nothing is learned, and afterwards the limit that
# was found before counts again.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $FOUND = 20;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /ordered {
            dsem api limit=auto max=100 queue=200 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

$conf =~ s{(    server \{\n.*\n)}{$1        location /dsem/ { dsem_api write=on; }\n};
my $node = $clock->node('a', $conf);

wait_for { $t->state->session_count == 2 && found() } 15, 'both sessions';
$t->state->set_found('api', $FOUND);
my @requests = hanging(30);
eventually { $up->now == $FOUND } 'the limit that was found';

# a worker serves its own next request while a reply is late: none ever is
$clock->stop;
patch('{"limit":3}');
$up->release($FOUND - 2);
eventually { $up->now == 3 } 'drained to the order';
$clock->go;
is found(), $FOUND, 'the limit found is kept';
$up->reset;
my $load = $t->load_start(clients => 30, seconds => 600,
    urls => [ $node->url('/ordered?t=10') ]);
wait_for { $up->release_all; $up->served > 300 } 30, 'the load to go on';
is $up->peak, 3, 'the order reached, never exceeded';
is found(), $FOUND, 'nothing learned meanwhile';
$load->stop->wait;
$_->wait for @requests;

# above what was found
patch('{"limit":40}');
@requests = hanging(60);
eventually { $up->now == 40 } 'a higher order holds';

$clock->stop;
patch('{"limit":null}');
$up->release(30);
eventually { $t->state->held('api') == $FOUND && $up->now == $FOUND }
    'the found limit again';
$clock->go;
is $t->state->waiting('api'), 10, 'the others wait';
wait_for { $up->release_all; !grep { !$_->done } @requests } 15, 'all served';

$t->done;

sub hanging {
    my ($n) = @_;
    return map { $node->begin("/ordered?hang=1&n=$_") } 1 .. $n;
}

sub patch {
    my ($body) = @_;
    my $reply = $node->get('/dsem/semaphores/api', -method => 'PATCH',
        -body => $body, 'Content-Type' => 'application/json');
    is $reply->status, 200, "PATCH $body" or diag $reply->body;
}

sub found { return $t->state->lowest_limit('api') }
