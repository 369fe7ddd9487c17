#!/usr/bin/perl

# "dsem upstream=" names the pool of a location whose "proxy_pass" has variables:
# the limits of both pools are reached and kept. A name of no pool is refused, and
# a request that comes to another pool than named gets no server. A target that
# is known needs no name.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $gpu = $t->upstream;
my @cpus = map { $t->upstream } 1, 2;
my $plain = $t->upstream;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @cpus;

my @nodes = $t->fleet(2, <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
upstream gpus {
    server @{[ $gpu->address ]};
    dsem llm limit=1/server queue=20 timeout=60s;
}
upstream cpus {
    $servers
    dsem cpus limit=1/server queue=20 timeout=60s;
}
upstream plain {
    server @{[ $plain->address ]};
}
server {
    listen 127.0.0.1:%%PORT%%;
    dsem_status 503 error=599;
    add_header X-Dsem "\$dsem_status \$dsem_name" always;
    add_header X-Server "\$dsem_server \$upstream_addr" always;
    location / {
        dsem upstream=\$arg_pool;
        proxy_pass http://\$arg_pool;
    }
    location /to {
        dsem off;
        dsem upstream=\$arg_pool;
        proxy_pass http://\$arg_to;
        location /to/below {
            proxy_pass http://\$arg_to;
        }
        location /to/known {
            proxy_pass http://cpus;
        }
        location /to/none {
            dsem upstream=;
            proxy_pass http://\$arg_to;
        }
    }
    location /literal {
        dsem upstream=gpus;
        proxy_pass http://\$arg_to;
    }
    location /first {
        dsem upstream=\$arg_pool;
        dsem narrow limit=1 queue=5 timeout=60s;
        proxy_pass http://\$arg_pool;
    }
    location /if {
        dsem upstream=\$arg_pool;
        if (\$arg_to) {
            proxy_pass http://\$arg_to;
        }
    }
    location /dsem/ {
        dsem_api;
    }
    location /dry {
        dsem_dry_run on;
        dsem narrow limit=1 queue=\$arg_queue;
        dsem upstream=\$arg_pool;
        proxy_pass http://\$arg_to;
    }
}
EOF_CONF

my $node = $nodes[0];

sub counts { return $t->state->counts($_[0]) }

sub errors {
    return decode_json($node->get("/dsem/semaphores/$_[0]")->body)
        ->{semaphore}{local}{error};
}

sub is_at {
    my ($request, $name, @up) = @_;
    is $request->wait->status, 200, "$name: served";
    my $addresses = join '|', map { quotemeta $_->address } @up;
    like $request->header('X-Server'), qr/^($addresses) \1$/,
        "$name: at the server of its permit";
    return;
}

# both pools are full, and a request of each waits

my @held = map { $nodes[ $_ % 2 ]->begin('/?hang=1&pool=cpus') } 0, 1;
push @held, $node->begin('/?hang=1&pool=gpus');
eventually { "@{[ map { $_->now } $gpu, @cpus ]}" eq '1 1 1' } 'all are full';
my @waits = map { $nodes[1]->begin("/?pool=$_") } qw(gpus cpus);
eventually { counts('llm') eq '1 1' && counts('cpus') eq '2 1' }
    'one request of each waits';
$gpu->release(1);
is_at($waits[0], 'of the first pool', $gpu);
is counts('cpus'), '2 1', 'the other one waits';
$cpus[1]->release(1);
is_at($waits[1], 'of the second pool', $cpus[1]);
$_->release_all for $gpu, @cpus;
is $_->wait->status, 200, 'request ended' for @held;

my $load = $t->load(urls => [ map {
    my $url = $_->url('/?t=5');
    map { "$url&pool=$_" } qw(gpus cpus);
} @nodes ], clients => 12, requests => 80, timeout => 60);
is_deeply [ keys %{ $load->{statuses} } ], [200], 'all served under load';

# where it is written

is_at($node->begin('/?pool=GPUS'), 'in capitals, as for nginx', $gpu);
is_at($node->begin('/literal?to=gpus'), 'without variables', $gpu);
is_at($node->begin('/to?pool=gpus&to=gpus'), 'beside "off"', $gpu);
is_at($node->begin('/to/below?pool=gpus&to=gpus'), 'inherited', $gpu);
is_at($node->begin('/to/known?pool=gpus'), 'the target is known', @cpus);
is_at($node->begin('/if?pool=gpus&to=gpus'), 'in an "if"', $gpu);
is $node->get('/if?pool=gpus')->header('X-Dsem'), '', 'a level that passes nothing: '
    . 'no permit';

# its permit is the last one

my $first = $node->begin('/first?hang=1&pool=gpus');
eventually { $gpu->now == 1 } 'one request at the server';
my $second = $node->begin('/first?pool=cpus');
eventually { counts('narrow') eq '1 1' } 'another waits for the other line';
is counts('cpus'), '0 0', 'it has no permit of the pool';
$gpu->release(1);
is $first->wait->status, 200, 'request ended';
is_at($second, 'the last line', @cpus);

is $_->peak, 1, 'limit of a server reached, not exceeded' for $gpu, @cpus;

# names that are those of no pool

$_->reset for $gpu, @cpus, $plain;
for (
    [ '/to?pool=none&to=gpus', 'none', 'none' ],
    [ '/?pool=plain', 'plain', 'an upstream without a limit' ],
    [ '/?pool=llm', 'llm', 'a semaphore' ],
    [ '/to?pool=gpus:80&to=gpus', 'gpus:80', 'a port' ],
) {
    my ($path, $value, $name) = @$_;
    $_->clear_logs for @nodes;
    my $request = $node->get($path);
    is $request->status, 599, "$name: refused";
    is $request->header('X-Dsem'), "ERROR $value", 'status is ERROR';
    my @lines = $node->grep_log(qr/ dsem/);
    is scalar @lines, 1, 'one line';
    like $lines[0], qr/\[error\]\ \S+\ \S+\ dsem\ error:\ value\ "$value"
        \ of\ "upstream"\ names\ no\ upstream\ that\ has\ a\ "dsem"
        \ directive,/x, 'value shown';
}
my $dry = $node->get('/dry?pool=none&to=plain');
is $dry->status . ' ' . $dry->header('X-Dsem'), '200 ERROR_DRY_RUN none',
    'a dry run passes it';
is $plain->served, 1, 'and nothing else came to a server';
is $_->started, 0, 'nor to one of a pool' for $gpu, @cpus;

# nor does it fail where it would have no permit: any server is taken

for (
    [ 'pool=none&to=gpus', 'ERROR_DRY_RUN none', '"none" of "upstream"' ],
    [ 'pool=cpus&to=gpus', undef, 'has no permit .*, dry run,' ],
    [ 'pool=&to=gpus', undef, 'has no permit .*, dry run,' ],
    [ 'pool=gpus&to=gpus&queue=x', 'ERROR_DRY_RUN narrow', '"x" of "queue"' ],
) {
    my ($query, $shown, $line) = @$_;
    $_->clear_logs for @nodes;
    $dry = $node->get("/dry?$query");
    is $dry->status, 200, "dry run, $query: passes";
    is $dry->header('X-Dsem'), $shown, 'status as without it'
        if defined $shown;
    my @lines = $node->grep_log(qr/\[error\]/);
    is scalar @lines, 1, 'one line';
    like $lines[0], qr/ dsem.*$line/, 'that names the cause';
}
is $gpu->served, 4, 'all were served';
eventually { counts('cpus') eq '0 0' } 'nothing is held';
$gpu->reset;

# no name: no permit

for my $path ('/to?pool=&to=plain', '/to/none?pool=gpus&to=plain') {
    my $request = $node->get($path);
    is $request->status . $request->header('X-Dsem'), '200', 'not limited';
}

# a request that comes to another upstream than named

is $node->get('/to?pool=gpus&to=plain')->header('X-Dsem'), 'PASSED llm',
    'at an upstream without a limit it has a permit';

my @errors = map { errors($_) } qw(llm cpus);
for my $path ('/to?pool=cpus&to=gpus', '/to?pool=&to=gpus',
    '/literal?to=cpus') {
    $node->clear_logs;
    is $node->get($path)->status, 500, "$path: failed";
    is scalar($node->grep_log(qr/\[error\].*has\ no\ permit.*does\ not
        \ name\ this\ upstream\ by\ "dsem\ upstream="/x)), 1, 'and logged';
}
is errors('llm') - $errors[0], 2, 'two counted as errors of this pool';
is errors('cpus') - $errors[1], 1, 'one of the other';
is $_->started, 0, 'it came to no server' for $gpu, @cpus;
eventually { counts('llm') eq '0 0' && counts('cpus') eq '0 0' }
    'all permits are back';

$t->done;
