#!/usr/bin/perl

# A history in Redis as this node would not write it, for example one of a newer
# version: the API shows the changes up to the first that is none, at most 256,
# those of a later clock as of now, and a reason without a name as unknown.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
$t->upstream;

# the history of each name, and the limits that are shown
my @cases = (
    ['two', ' 1 20 2 2 21 3', [20, 21], 'two changes'],
    ['reason', ' 1 22 2 2 23', [22], 'one without a reason'],
    ['word', ' 1 24 2 mine 3 25 2', [24], 'a word'],
    ['sign', ' 1 26 2 3 - 2 4 27 2', [26], 'a sign'],
    ['clock', ' 99999999999999999999999 28 2', [], 'a clock that is none'],
    ['many', ' 1 29 2' x 300, [(29) x 256], 'very many'],
    ['later', ' 9000000000000000 30 6 1 31 5', [30, 31],
        'a later clock, a later reason'],
);
my $locations = join '', map { <<"EOF" } map { $_->[0] } @cases;
        location /$_ {
            dsem $_ limit=auto;
            proxy_pass http://%%UPSTREAM%%;
        }
EOF

my $node = $t->node('a', <<'EOF_CONF' =~ s/ *LOCATIONS\n/$locations/r);
worker_processes 1;
dsem_lease 60s;
LOCATIONS
location /dsem/ { dsem_api; }
EOF_CONF

sub history {
    my ($name) = @_;
    my $answer = $node->get("/dsem/semaphores/$name");
    return decode_json($answer->body)->{semaphore}{auto}{history};
}

for (@cases) {
    my ($name, $text) = @$_;
    my $key = $t->state->auto_key($name);
    is $node->get("/$name")->status, 200, 'a request';
    wait_for { $redis->cmd('EXISTS', $key) } 15, 'its sample';
    $redis->cmd('HSET', $key, 'history', $text);
}
# the changes are five seconds old
$t->state->advance(5000);
for (@cases) {
    my ($name, undef, $limits, $what) = @$_;
    eventually {
        "@$limits" eq join ' ', map { $_->{limit} } @{ history($name) };
    } $what or diag explain history($name);
}

my ($later, $named) = @{ history('later') };
is "@$later{qw(age reason)}", '0 unknown', 'as of now, unknown';
is $named->{reason}, 'bound', 'the next one as usual';
cmp_ok $named->{age}, '>', 4, 'with its age';

is $node->get('/two')->status, 200, 'requests are served';

$t->done;
