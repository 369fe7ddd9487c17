#!/usr/bin/perl

# Where "dsem_hold" is allowed, what it refuses, and what it warns of.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;

my $nothing = '"dsem_hold" directive in location "/h" holds no permit, '
    . 'it needs a "dsem" directive';

# title, text of a server, expected sentence
my @wrong = (
    ['unknown parameter', 'location /h { dsem a limit=1; dsem_hold min=1s; }',
        'invalid parameter "min=1s" in "dsem_hold" directive'],
    ['no value', 'location /h { dsem a limit=1; dsem_hold max=; }',
        '"max" parameter in "dsem_hold" directive has no value'],
    ['twice', 'location /h { dsem a limit=1; dsem_hold max=1s max=2s; }',
        'duplicate parameter "max" in "dsem_hold" directive'],
    ['too often', 'location /h { dsem a limit=1; dsem_hold interval=99ms; }',
        'it must be between 100ms and 3600000ms'],
    ['no time', 'location /h { dsem a limit=1; dsem_hold max=0; }',
        'it must be between 1ms and 2147483647ms'],
    ['directive twice', 'location /h { dsem a limit=1; dsem_hold; dsem_hold; }',
        '"dsem_hold" directive is duplicate'],
    ['server', 'dsem_hold;', '"dsem_hold" directive is not allowed here'],
    ['no limit', 'location /h { dsem_hold; }', $nothing],
    ['limit switched off',
        'dsem a limit=1; location /h { dsem off; dsem_hold; }', $nothing],
);

for my $wrong (@wrong) {
    my ($title, $text, $sentence) = @$wrong;
    my ($status, $said) = conf($text);
    is $status, 1, "$title: refused";
    like $said, qr/\[emerg\].*\Q$sentence\E/, "$title: sentence";
}

my $warning = '"dsem_hold" directive has no effect in location "/h", a later '
    . 'directive answers its requests';
my $granted = '"dsem_hold" directive in location "/h" grants every program at '
    . 'once, as "dsem_dry_run" is on there';

# title, text of a server, expected warning
my @right = (
    ['inherited limit', 'dsem a limit=1; location /h { dsem_hold; }'],
    ['both parameters',
        'location /h { dsem a limit=1; dsem_hold interval=5s max=1h; }'],
    ['regular expression', 'dsem a limit=1; location ~ ^/h { dsem_hold; }'],
    ['named location', 'dsem a limit=1; location @h { dsem_hold; }'],
    ['methods', 'dsem a limit=1; location /h { dsem_hold; '
        . 'limit_except POST { deny all; } }'],
    ['other handler in if', 'dsem a limit=1; location /h { dsem_hold; '
        . 'if ($arg_a) { proxy_pass http://127.0.0.1:1; } }'],
    ['other handler', 'dsem a limit=1; location /h { dsem_hold; '
        . 'proxy_pass http://127.0.0.1:1; }', $warning],
    ['dry run', 'dsem_dry_run on; dsem a limit=1; location /h { dsem_hold; }',
        $granted],
    ['dry run of methods', 'dsem a limit=1; location /h { dsem_dry_run on; '
        . 'dsem_hold; limit_except POST { deny all; } }', $granted],
    ['dry run elsewhere', 'dsem_dry_run on; dsem a limit=1; '
        . 'location /h { dsem_dry_run off; dsem_hold; }'],
    ['dry run, other handler', 'dsem_dry_run on; dsem a limit=1; location /h { '
        . 'dsem_hold; proxy_pass http://127.0.0.1:1; }', $warning],
);

for my $right (@right) {
    my ($title, $text, $sentence) = @$right;
    my ($status, $said) = conf($text);
    is $status, 0, "$title: accepted";
    my @warned = grep { /\[warn\]/ } split /\n/, $said;
    is scalar(@warned), $sentence ? 1 : 0, "$title: warnings" or diag @warned;
    like $warned[0], qr/\Q$sentence\E/, "$title: sentence" if $sentence;
}

$t->done;

sub conf {
    my ($text) = @_;
    return $t->test_conf("%%GLOBALS%%\nevents { }\nhttp {\n%%HTTP%%\n"
        . "server {\nlisten 127.0.0.1:%%PORT%%;\n$text\n}\n}\n");
}
