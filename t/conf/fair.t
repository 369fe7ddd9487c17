#!/usr/bin/perl

# The parameters "fair" and "share" of a dsem line: what is accepted, and the
# sentence of nginx -t for what is not.

use lib 't/lib';
use Dsem::Test;

my $range = 'it must be between 1 and 1000';

my $one = '"fair=all" of semaphore "a" in %%TESTDIR%%/conf/nginx.conf:%LINE% has no '
    . 'variables, all its requests at this node have one key, which shares only '
    . 'with keys of other nodes';

# each: title, the dsem line, expected sentence or undef, expected warning
my @cases = (
    ['variable', 'dsem a limit=1 queue=5 fair=$arg_k;'],
    ['text and variables', 'dsem a limit=1 queue=5 fair=$arg_k:$arg_l;'],
    ['literal', 'dsem a limit=1 queue=5 fair=all;', undef, $one],
    ['one literal of two lines', 'dsem a limit=1 queue=5 fair=all; '
        . 'if ($arg_k) { return 204; } location /in { '
        . 'dsem a limit=1 queue=5 fair=all; }', undef, $one],
    (map { ["literal beside $_->[0]", 'dsem a limit=1 queue=5 fair=all; '
            . "location /in { dsem a limit=1 queue=5 $_->[1]; }"] }
        ['another', 'fair=al'], ['variables', 'fair=$arg_k'], ['none', '']),
    ['literal of a name with variables',
        'dsem $arg_n limit=1 queue=5 fair=all;'],
    ['literal of a literal limit', 'location /a { dsem a limit=$arg_m queue=5 '
        . 'fair=all; } location /b { dsem a limit=1 queue=5 fair=all; }', undef,
        $one],
    ['share', 'dsem a limit=1 queue=5 fair=$arg_k share=1;'],
    ['largest share', 'dsem a limit=1 queue=5 share=1000 fair=$arg_k;'],
    ['beside others', 'dsem $arg_n limit=$arg_m queue=5 timeout=1s '
        . 'weight=$arg_w priority=$arg_p fair=$arg_k share=2;'],
    ['one name, with and without', 'dsem a limit=1 queue=5 fair=$arg_k; '
        . 'dsem a limit=1 queue=5;'],
    ['without queue', 'dsem a limit=1 fair=$arg_k;', undef,
        '"fair" parameter in "dsem" directive needs "queue", without it no '
        . 'request waits for a permit'],
    ['empty fair', 'dsem a limit=1 queue=5 fair=;',
        '"fair" parameter in "dsem" directive has no value'],
    ['duplicate fair', 'dsem a limit=1 queue=5 fair=$arg_k fair=$arg_l;',
        'duplicate parameter "fair" in "dsem" directive'],
    ['unknown variable', 'dsem a limit=1 queue=5 fair=$no_such_one;',
        'unknown "no_such_one" variable'],
    ['share alone', 'dsem a limit=1 queue=5 share=2;',
        '"share" parameter in "dsem" directive needs "fair"'],
    ['share alone with limit=auto', 'dsem a limit=auto queue=5 share=2;',
        '"share" parameter in "dsem" directive needs "fair"'],
    ['share with limit=auto', 'dsem a limit=auto queue=5 fair=$arg_k share=2;'],
    ['duplicate share', 'dsem a limit=1 queue=5 fair=$arg_k share=1 share=2;',
        'duplicate parameter "share" in "dsem" directive'],
    (map {
        ["share $_->[0]", "dsem a limit=1 queue=5 fair=\$arg_k share=$_->[0];",
            qq(invalid value "$_->[0]" of "share" parameter in "dsem" )
            . "directive, $_->[1]"]
    } ['0', $range], ['1001', $range], ['-1', $range], ['x', 'it must be a '
        . 'number'], ['1.5', 'it must be a number'],
        ['99999999999999999999', $range]),
    ['share of a variable', 'dsem a limit=1 queue=5 fair=$arg_k share=$arg_s;'],
    ['share of a variable alone', 'dsem a limit=1 queue=5 share=$arg_s;',
        '"share" parameter in "dsem" directive needs "fair"'],
);

my $t = Dsem::Test->new;

for (@cases) {
    my ($title, $line, $error, $warning) = @$_;
    my ($status, $errors) = $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { $line }
    }
}
EOF_CONF
    is $status, $error ? 1 : 0, "$title: " . ($error ? 'refused' : 'accepted');
    if (defined $error) {
        like $errors, qr/\[emerg\] (?:\d+#\d+: )?\Q$error\E/, 'error printed';
    } elsif (defined $warning) {
        $warning =~ s/%%TESTDIR%%/$t->dir/e;
        $warning = join '\d+', map { quotemeta } split /%LINE%/, $warning;
        like $errors, qr/\[warn\] (?:\d+#\d+: )?$warning/,
            'warning printed';
    } else {
        unlike $errors, qr/\[(?:warn|emerg)\]/, 'no complaint';
    }
}

$t->done;
