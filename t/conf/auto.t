#!/usr/bin/perl

# "nginx -t" checks "limit=auto" and its bounds, alone and against the other
# limits of the name, and accepts what is right without a word.

use lib 't/lib';
use Dsem::Test;

my $server = 'server { location / { %s } }';
my $bounds = 'it must be between 1 and 1000000';

# each: title, text in http{}, expected sentence

my @wrong = (
    ['auto in capitals', 'dsem a limit=AUTO;',
        'invalid value "AUTO" of "limit" parameter in "dsem" directive, it must be a number or "auto"'],
    ['auto with a tail', 'dsem a limit=auto5;',
        'invalid value "auto5" of "limit" parameter in "dsem" directive, it must be a number or "auto"'],
    ['min beside a number', 'dsem a limit=5 min=1;',
        '"min" parameter in "dsem" directive needs "limit=auto"'],
    ['max beside a number', 'dsem a limit=5 max=10;',
        '"max" parameter in "dsem" directive needs "limit=auto"'],
    ['max beside a variable', 'dsem a limit=$arg_l max=10;',
        '"max" parameter in "dsem" directive needs "limit=auto"'],
    ['min above max', 'dsem a limit=auto min=6 max=5;',
        '"min=6" is greater than "max=5" in "dsem" directive'],
    ['min above the default', 'dsem a limit=auto min=2000;',
        '"min=2000" is greater than the default "max=1000" in "dsem" directive'],
    (map {
        ["$_ of zero", "dsem a limit=auto $_=0;",
            qq(invalid value "0" of "$_" parameter in "dsem" directive, $bounds)],
        ["$_ in words", "dsem a limit=auto $_=some;",
            qq(invalid value "some" of "$_" parameter in "dsem" directive, it must be a number)],
        ["$_ of a variable", "dsem a limit=auto $_=\$arg_m;",
            qq(invalid value "\$arg_m" of "$_" parameter in "dsem" directive, it must be without variables)],
        ["$_ twice", "dsem a limit=auto $_=5 $_=5;",
            qq(duplicate parameter "$_" in "dsem" directive)],
    } qw(min max)),
    ['name with a variable', 'dsem "a$arg_n" limit=auto;',
        '"dsem" directive with "limit=auto" must have a name without variables'],
    ['weight above min', 'dsem a limit=auto min=2 weight=3;',
        '"weight=3" is greater than "min=2" in "dsem" directive, at that limit no request could pass'],
    ['weight above the default', 'dsem a limit=auto weight=2;',
        '"weight=2" is greater than the default "min=1" in "dsem" directive, at that limit no request could pass'],
    ['share without fair', 'dsem a limit=auto share=3;',
        '"share" parameter in "dsem" directive needs "fair"'],
    ['auto and a number',
        sprintf($server, 'dsem a limit=auto;') . sprintf($server, 'dsem a limit=10;'),
        qr/semaphore "a" has "limit=auto min=1 max=1000" in \S+:\d+, but "limit=10"/],
    ['a number and auto',
        sprintf($server, 'dsem a limit=20;')
        . sprintf($server, 'dsem a limit=auto min=5 max=30;'),
        qr/semaphore "a" has "limit=20" in \S+:\d+, but "limit=auto min=5 max=30"/],
    ['other bounds',
        sprintf($server, 'dsem a limit=auto max=30;')
        . sprintf($server, 'dsem a limit=auto max=40;'),
        qr/semaphore "a" has "limit=auto min=1 max=30" in \S+:\d+, but "limit=auto min=1 max=40"/],
);

my @right = (
    ['defaults', 'dsem a limit=auto;'],
    ['bounds in any order', 'dsem a max=9 limit=auto queue=5 min=3;'],
    ['weight of min', 'dsem a limit=auto min=2 weight=2;'],
    ['share with fair', 'dsem a limit=auto queue=5 fair=$arg_k share=3;'],
    ['the same twice',
        sprintf($server, 'dsem a limit=auto max=30;')
        . sprintf($server, 'dsem a limit=auto min=1 max=30;')],
    ['min is max, and the number',
        sprintf($server, 'dsem a limit=auto min=7 max=7;')
        . sprintf($server, 'dsem a limit=7;')],
    ['auto and a variable',
        sprintf($server, 'dsem a limit=auto;')
        . sprintf($server, 'dsem a limit=$arg_l;')],
);

my $t = Dsem::Test->new;

for my $case (@wrong, @right) {
    my ($title, $http, $sentence) = @$case;

    my ($status, $errors) = $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    $http
}
EOF_CONF

    if (!defined $sentence) {
        is $status, 0, "$title: accepted" or diag $errors;
        unlike $errors, qr/\[(?:warn|error|emerg)\].*(?:dsem|semaphore)/, "$title: no warning";
        next;
    }
    my @lines = grep { /\[emerg\]/ } split /\n/, $errors;
    my $found = ref $sentence ? $errors =~ $sentence
        : index($errors, $sentence) >= 0;
    is $status, 1, "$title: refused";
    ok $found && @lines == 1 && $errors =~ / in \S+:\d+$/m,
        "$title: sentence printed" or diag $errors;
}

$t->done;
