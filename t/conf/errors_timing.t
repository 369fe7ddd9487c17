#!/usr/bin/perl

# Wrong values of the directives for the acquire phase, the release of a permit
# and Retry-After: "nginx -t" finds each, with one sentence that names the word
# and the place.

use lib 't/lib';
use Dsem::Test;

# each: title, text in http{}, expected sentence

my @FLAGS = qw(dsem_wait_body);
my @ALL = ('dsem_release', 'dsem_retry_after', @FLAGS);

my @wrong = (
    (map {
        my $word = $_;
        ["release $word", qq(dsem_release "$word";),
            qq(invalid value "$word" in "dsem_release" directive, it must be "response" or "log")]
    } qw(x on off request), '', 'log ', '$arg_x'),
    ['release of two words', 'dsem_release response log;',
        'invalid number of arguments in "dsem_release" directive'],
    ['release of a hostile word', qq(dsem_release "log\n[emerg] forged";),
        'invalid value "log\x0A[emerg] forged" in "dsem_release" directive'],

    (map {
        my $word = $_;
        ["retry_after $word", qq(dsem_retry_after "$word";),
            qq(invalid value "$word" in "dsem_retry_after" directive, it must be a time, "auto" or "off")]
    } qw(never AUTO on -1 5min), ''),
    (map {
        my $time = $_;
        ["retry_after $time", qq(dsem_retry_after "$time";),
            qr/invalid value "$time" in "dsem_retry_after" directive, it must be between 1000ms/]
    } qw(0 0s 999ms 30d)),
    ['retry_after of a variable', 'dsem_retry_after $arg_t;',
        'invalid value "$arg_t" in "dsem_retry_after" directive, it must be without variables'],
    ['retry_after of two words', 'dsem_retry_after auto 5s;',
        'invalid number of arguments in "dsem_retry_after" directive'],

    (map {
        my $name = $_;
        map {
            ["$name $_", qq($name "$_";),
                qq(invalid value "$_" in "$name" directive, it must be "on", "off" or "first")]
        } qw(yes 1 auto), '', '$arg_x'
    } @FLAGS),

    # all of them

    (map {
        my $value = /retry/ ? '5s' : /release/ ? 'log' : 'on';
        ["$_ empty", "$_;",
            qq(invalid number of arguments in "$_" directive)],
        ["$_ twice", "$_ $value; $_ $value;",
            qq("$_" directive is duplicate)],
        ["$_ in upstream", "upstream u { $_ $value; }",
            qq("$_" directive is not allowed here)],
        ["$_ in if", "server { location / { if (\$arg_x) { $_ $value; } } }",
            qq("$_" directive is not allowed here)],
    } @ALL),
    (map {
        ["$_ twice, first as the default", "$_ auto; $_ off;",
            qq("$_" directive is duplicate)],
    } 'dsem_retry_after'),
);

my @good = (
    (map { "dsem_release $_;" } qw(response log)),
    (map { "dsem_retry_after $_;" } qw(auto off 1 5s 1m 1h)),
    (map { my $name = $_; map { "$name $_;" } qw(on off first) } @FLAGS),
);

my $t = Dsem::Test->new->plan(2 * @wrong + @good);

sub test {
    my ($http) = @_;
    return $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    $http
}
EOF_CONF
}

for my $case (@wrong) {
    my ($title, $http, $sentence) = @$case;
    my ($status, $errors) = test($http);
    is($status, 1, "$title: refused");
    my @lines = grep { /\[emerg\]/ } split(/\n/, $errors);
    my $found = ref $sentence ? $errors =~ $sentence
        : index($errors, $sentence) >= 0;
    ok($found && $errors =~ / in \S+:\d+$/m && @lines == 1
        && $errors !~ /^(?:\[emerg\] )?forged/m, "$title: sentence printed")
        or diag($errors);
}

# in all three contexts
for my $line (@good) {
    my ($status, $errors) = test(
        "$line server { $line location / { $line } }");
    is($status, 0, $line) or diag($errors);
}
