#!/usr/bin/perl

# Nothing that a client says about itself counts: headers named like ours,
# like a backend's, or like a proxy's change neither the verdict nor the
# place in the queue, and come back in no answer. Only what the configuration
# reads from a request (here one argument) is read.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
dsem_reuse off;
add_header X-Told "$dsem_status $dsem_name $dsem_limit" always;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem "name:$arg_name" limit=1 queue=10 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /impatient {
        dsem "name:$arg_name" limit=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /secret {
        internal;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /accel {
        dsem "name:$arg_name" limit=1;
        proxy_pass http://127.0.0.1:%%PORT2%%;
    }
}
server {
    listen 127.0.0.1:%%PORT2%%;
    location / {
        return 200 "X-Accel-Redirect: $http_x_accel_redirect\n";
    }
}
EOF_CONF

my @forged = (
    (map { ("X-Dsem-$_" => 'PASSED') } qw(Status Name Permit Limit Op)),
    (map { ($_ => 'PASSED') } qw(X-Dsem Dsem Dsem-Status dsem_status)),
    (map { ("X-Dsem-$_" => -8) } qw(Priority Weight Queue-Position)),
    (map { ("dsem_$_" => 100) } qw(limit in_use)),
    'Retry-After' => 0, 'X-Accel-Redirect' => '/secret',
    'X-Accel-Limit-Rate' => 1, 'X-Accel-Expires' => 100, Status => '200 OK',
    'X-Forwarded-For' => '127.0.0.1', 'X-Original-URI' => '/secret',
    'X-Limit' => 100, 'X-Sem' => 'a:1',
);

my $holder = $node->begin('/?name=a&hang=1', @forged);
wait_for { $up->now == 1 };
is(state('a'), '1 0', 'one permit held');
my $refused = $node->get('/impatient?name=a', @forged);
is($refused->status, 503, 'forged headers rejected');
is($refused->header('X-Told'), 'REJECTED name:a 1', 'status is REJECTED');
my $plain = $node->get('/impatient?name=a');
my @names = map { join ' ', sort keys %{ $_->headers } } $refused, $plain;
is($names[0], $names[1], 'same headers as without');
isnt($refused->header('Retry-After') // '', '0', 'own Retry-After sent');

# in the queue

my @waiting;
for my $n (1 .. 4) {
    push @waiting, $node->begin('/?name=a', 'X-Nonce' => "nonce$n",
        $n % 2 ? () : @forged);
    wait_for { state('a') eq "1 $n" };
}
$up->reset;
$up->release_all;
$_->wait for @waiting;
is_deeply([$up->order], [map { "nonce$_" } 1 .. 4], 'no better queue position');
is($holder->wait->status, 200, 'holder served');
is($holder->header('X-Told'), 'PASSED name:a 1', 'real status reported');

# redirects are the backend's to make

is($node->get('/accel?name=a', @forged)->body,
    "X-Accel-Redirect: /secret\n", 'redirect only for backend');
is($node->get('/secret', @forged)->status, 404, 'location still internal');

# values that are read are data

for my $name ("a'", '}:s:x', '{0}', '%00', '%0d%0aX-Told:%20x', '$dsem_name')
{
    my $request = $node->get("/?name=$name", @forged);
    is($request->status, 200, "served: $name");
    like($request->header('X-Told'), qr/^PASSED name:[\w.:%-]+ 1$/,
        'single name in status');
}
my $census = $t->state->census_key;
my %shard = (reverse($t->state->shard_keys), $census => 1);
eventually { !grep { !$shard{$_} } @{ $redis->cmd('KEYS', '*') } }
    'no key left, nor a foreign one';
isnt($redis->cmd('PTTL', $census), -1, 'census not for ever');

done_testing();

# permits held and tickets waiting
sub state {
    my ($name) = @_;
    return $t->state->counts("name:$name");
}
