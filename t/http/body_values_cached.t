#!/usr/bin/perl

# What nginx cached while values were evaluated without the body is forgotten:
# maps of maps, named captures, $request_body itself. What it cached before, and
# the captures of the location, stay. A location remembers that its values need
# the body.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
error_log %%DIR%%/debug.log debug;
map $request_body $tokens {
    "~^tokens=(?<number>[0-9]+)" $number;
    default 2;
}
map $tokens $name { default "n$tokens"; }
map $name $limit { n2 30; default 100; }
# its captures take the place of those of the location
map $uri/$request_body $priority {
    "~/(c|s)[a-z]+/(.)" 1;
    default 2;
}
map $request_body $early {
    "~." yes;
    default no;
}
add_header X-Dsem "$dsem_status $dsem_name $dsem_limit" always;
add_header X-Variables "$tokens $name $limit $number" always;
server {
    listen 127.0.0.1:%%PORT%%;
    location /chain/ {
        dsem $name limit=$limit queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location ~ ^/captures/(.*)$ {
        dsem "of_$1" limit=$limit priority=$priority queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
    location ~ ^/several/(.*)$ {
        dsem "first_$1" limit=5;
        dsem "$name" limit=$limit;
        dsem "last" limit=5 priority=$priority queue=1;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /early {
        set $kept before;
        if ($request_body) { return 204; }
        if ($early = yes) { return 204; }
        dsem "$kept.$name.$early" limit=$limit;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /remembers {
        dsem $name limit=$limit queue=5;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# twice each: before the location knows, and then

for my $round (1, 2) {
    is asked('/chain/', 'tokens=7'), 'PASSED n7 100|7 n7 100 7', 'chain';
    is asked('/chain/', ''), 'PASSED n2 30|2 n2 30 ', 'no body';
    is asked('/captures/a', 'tokens=6'), 'PASSED of_a 100|6 n6 100 6',
        'captures of the location';
    is asked('/several/b', 'tokens=8'), 'PASSED last 5|8 n8 100 8',
        'several directives';

    # other directives asked before the body was there, nginx remembers what
    # it made of it, but not that there was none

    is asked('/early', 'tokens=9'), 'PASSED before.n9.no 100|9 n9 100 9',
        'evaluated before';
}

# how often the map was evaluated for a request

SKIP: {
    debug_log();
    my @starts = map { asked('/remembers', 'tokens=5'); map_starts() } 1 .. 3;
    skip 'nginx without debug', 1 if !grep { $_ } @starts;
    is_deeply \@starts, [2, 1, 1], 'evaluated twice the first time only';
}

$t->done;

sub asked {
    my ($path, $body) = @_;
    my $request = $node->begin("$path?t=1", -method => 'POST',
        -body => $body);
    $request->wait;
    return join '|', map { $request->header($_) } qw(X-Dsem X-Variables);
}

sub debug_log {
    open my $log, '+<', $node->dir . '/debug.log' or return '';
    local $/;
    my $text = <$log>;
    truncate $log, 0;
    return $text;
}

# of the first of three maps
sub map_starts {
    my @lines = debug_log() =~ /http map: "([^"]*)" "[0-9]"/g;
    return scalar @lines;
}
