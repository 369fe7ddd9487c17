#!/usr/bin/perl

# A history in Redis as this node would not write it, for example one of a newer
# version: the API shows the changes up to the first that is none, at most 256,
# those of a later clock as of now, and a reason without a name as unknown.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
$t->upstream;
my $key = $t->state->auto_key('api');

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /shown {
            dsem api limit=auto;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /dsem/ { dsem_api; }
    }
}
EOF_CONF

is $node->get('/shown')->status, 200, 'a request';
eventually { $redis->cmd('EXISTS', $key) } 'its sample';

sub history {
    my $answer = $node->get('/dsem/semaphores/api');
    return decode_json($answer->body)->{semaphore}{auto}{history};
}

sub is_shown {
    my ($text, $limits, $what) = @_;
    $redis->cmd('HSET', $key, 'history', $text);
    eventually { "@{[ map { $_->{limit} } @{ history() } ]}" eq "@$limits" }
        $what or diag explain history();
    return history();
}

is_shown(' 1 20 2 2 21 3', [20, 21], 'two changes');
is_shown(' 1 22 2 2 23', [22], 'one without a reason');
is_shown(' 1 24 2 mine 3 25 2', [24], 'a word');
is_shown(' 1 26 2 3 - 2 4 27 2', [26], 'a sign');
is_shown(' 99999999999999999999999 28 2', [], 'a clock that is none');
is_shown(' 1 29 2' x 300, [(29) x 256], 'very many');

my ($later, $named) = @{ is_shown(' 9000000000000000 30 6 1 31 5', [30, 31],
    'a later clock, a later reason') };
is "@$later{qw(age reason)}", '0 unknown', 'as of now, unknown';
is $named->{reason}, 'bound', 'the next one as usual';
cmp_ok $named->{age}, '>', 0, 'with its age';

is $node->get('/shown')->status, 200, 'requests are served';

$t->done;
