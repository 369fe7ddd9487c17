#!/usr/bin/perl

# Names from clients, with any bytes and of any length. Each has its own keys,
# in the documented form; no other key is touched, and no log line is forged.

use Digest::SHA qw(sha1_hex);
use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my ($node, $other) = $clock->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    large_client_header_buffers 4 32k;
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 10m;
    proxy_pass_request_headers off;
    proxy_set_header X-Nonce $http_x_nonce;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /argument {
            dsem "$arg_name" limit=1 queue=1 timeout=30s;
            proxy_pass http://%%UPSTREAM%%/?hang=1;
        }
        location = /header {
            dsem "$http_name" limit=1 queue=1 timeout=30s;
            proxy_pass http://%%UPSTREAM%%/?hang=1;
        }
        location ~ "(?s)^/decoded/(?<decoded>.*)$" {
            dsem "$decoded" limit=1 queue=1 timeout=30s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $forged = "\r\n2026/01/01 00:00:00 [alert] 1#1: forged";
my $forged_key = 'x dsem:{0} dsem:{1}:s:y{2}';
my $all = join '', map { chr } 1 .. 255;

# the request as sent, and the name in the location
my @cases = (
    argument('plain'), argument('Az09._:-'), argument('a%20b'),
    argument('%00%0d%0a'), argument('{}'), argument('a}:s:b'),
    argument('~'), argument('x' x 200), argument('x' x 201),
    argument('x' x 8000), argument('x' x 7999 . 'y'),
    argument('%' x 67), argument("\xff\xc3\xa4"),

    header('plain'), header('a b'), header('a%20b'), header($forged_key),
    header("tab\tand \"quote\" \\ `\$(x)`"), header('x' x 8192),
    header(join '', map { chr } 33 .. 126, 128 .. 255),
    header('*'), header('}'), header('é{' . '0}' x 99),

    decoded($forged), decoded("\n"), decoded("a\r\n\r\nSET x y\r\n"),
    decoded('dsem:{0}'), decoded('a b'), decoded('a%20b'),
    decoded($all =~ s{[/.]}{}gr), decoded("\n" x 2000),
);

sub argument {
    my ($raw) = @_;
    return { as => "argument $raw", path => "/argument?name=$raw",
        name => $raw };
}

sub header {
    my ($raw) = @_;
    return { as => "header $raw", path => '/header', header => [Name => $raw],
        name => $raw };
}

sub decoded {
    my ($bytes) = @_;
    my $path = '/decoded/'
        . join '', map { sprintf '%%%02x', ord } split //, $bytes;
    return { as => "decoded $bytes", path => "$path?hang=1",
        name => $bytes };
}

# the documented encoding
sub encoded {
    my ($name) = @_;
    my $encoded = $name =~ s/([^A-Za-z0-9._:-])/sprintf '%%%02X', ord $1/ger;
    return $encoded if length $encoded <= 200;
    return substr($encoded, 0, 64) . '~' . sha1_hex($name);
}

wait_for { $t->state->session_count == 2 && $t->state->subscribed == 2 } 15,
    'keys of the sessions';

# keys of another program
$redis->cmd('SET', $_, 'mine') for 'x', 'dsem:{1}:s:y{2}', 'y', 'forged';
my @before = keys_now();

# no request is served by a check, a second after it asked
$clock->stop;
my %seen;
for my $case (@cases) {
    my $name = encoded($case->{name});
    my $as = substr($case->{as} =~ s/[^ -~]/?/gr, 0, 40);
    $seen{$name}++;
    my @header = @{ $case->{header} // [] };
    $node->clear_logs;

    my $served = $node->begin($case->{path}, @header);
    wait_for { $up->now == 1 } 15, "$as to be served";
    my $waiting = $other->begin($case->{path}, @header);
    wait_for { keys_now() == @before + 2 } 15, "$as to wait";
    is_deeply([keys_now()], [sort @before, $t->state->semaphore_keys($name)],
        "keys: $as");
    my $refused = $node->get($case->{path}, @header);
    is($refused->status, 503, 'third refused');
    is($node->logged($refused)->{dsem_name}, $name, 'name in the variable');

    # a message carries the name to the other node
    $up->release_all;
    is($served->wait->status, 200, 'first served');
    wait_for { $up->now == 1 } 15, 'served by handover';
    $up->release_all;
    is($waiting->wait->status, 200, 'second served');
    # the end of an idle permit, and a heartbeat of both: a node whose last one is
    # two seconds older than that of the other is silent, and gets no permit
    $clock->step(1.1);
    wait_for { keys_now() == @before };
    is_deeply([keys_now()], \@before, 'nothing left');

    my @lines = split /\n/, $node->error_log;
    is(scalar(grep { /semaphore "\Q$name\E" has/ } @lines), 1,
        'refusal logged');
    is(scalar(grep { !m{^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[\w+\] \d+#\d+: }
        || /\] 1#1:/ } @lines), 0, 'no line forged');
}
is(scalar(grep { $seen{$_} > 1 } keys %seen), 3, 'equal names share keys');
is($redis->cmd('GET', $_), 'mine', 'foreign keys untouched')
    for 'x', 'dsem:{1}:s:y{2}', 'y', 'forged';
$redis->cmd('DEL', 'dsem:{1}:s:y{2}');
is($up->peak, 1, 'each name limited');
$clock->go;

# nginx rejects NUL

is($node->get('/decoded/%00')->status, 400, 'no NUL in a path');
my $raw = $node->raw->send("GET /header HTTP/1.0\r\nName: a\0b\r\n\r\n");
like($raw->read_until(qr/\r\n\r\n/), qr/^HTTP\S+ 400 /, 'no NUL in a header');
$raw->close;

done_testing();

sub keys_now {
    my @keys = sort @{ $redis->cmd('KEYS', '*') };
    return @keys;
}
