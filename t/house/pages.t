#!/usr/bin/perl

# README.md and docs/ are true: directives, variables, defaults, sentences of the
# log, the quick start, links, the permissions of the Redis user. lua/README.md
# has every key. The configurations that are shown, and conf.example, are valid.

###############################################################################

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../run";

use File::Find;

use Dsem::LogLines qw(formats reasons);
use Dsem::Pages;
use Dsem::Test;
use Fleet::Conf;

###############################################################################

my $root = "$FindBin::Bin/../..";
my $t = Dsem::Test->new;

my $readme = page('README.md');
my %page = pages();
my %document = documents();
my $all = join "\n", map { $page{$_} } sort keys %page;
my $source = sources('c');
my $headers = sources('h');

cmp_ok(scalar(() = $readme =~ /\n/g), '<=', 400, 'README: 400 lines');
for my $path (sort keys %page) {
    # the glossary names the retired ones
    unlike($page{$path} =~ s/^Retired, and what.*?\n\n?\z//msr,
        qr/\b(?:who|whoever|nobody|somebody)\b/i, "$path: subjects");
    like($page{$path}, qr/\A# .*\n\n\S/, "$path: title");
    like($readme, qr/\(\Q$path\E\)/, "$path: the README leads there")
        if $path ne 'README.md';
    my @headings = anchors($page{$path});
    is_deeply([grep { /-\d$/ } @headings], [], "$path: headings differ");
}

# directives: the same, in the same contexts; "dsem" is in the README, all others
# in docs/directives.md, in the order of the table of the README

my %flag = (MAIN => 'http', SRV => 'server', LOC => 'location',
    LIF => 'if in location');
my %directive = map { $_->[0] => {
    context => join(', ',
        map { $flag{$_} } $_->[1] =~ /NGX_HTTP_(\w+?)_CONF/g),
    entry => $_->[2],
} } grep { $_->[1] !~ /NGX_HTTP_UPS_CONF/ } directives();
my @others = $page{'docs/directives.md'} =~ /^## (dsem\w*)$/mg;
my %section = map { $_ => entry($_) } 'dsem', @others;

is_deeply([sort 'dsem', @others], [sort keys %directive],
    'every directive, and no other');
my @rows = section('All others')
    =~ /^\| \[(dsem\w+)\]\(.*?\) \| (.*?) \| (.*?) \| /mg;
is_deeply([@rows[map { 3 * $_ } 0 .. @rows / 3 - 1]], \@others,
    'the same directives in the table');
while (my ($name, $default, $context) = splice @rows, 0, 3) {
    my $written = $section{$name}{default} =~ s/^$name (.*);$/`$1`/r;
    is("$default, $context", ($written eq '-' ? '–' : $written)
        . ", $section{$name}{context}", "$name: row of the table");
}
is($section{$_}{context}, $directive{$_}{context}, "$_: context")
    for sort keys %directive;

# syntax: the parameters and words that the tables have

is_deeply([sort $section{dsem}{syntax} =~ /(\w+)=/g],
    [sort { $a cmp $b } params('params')], 'dsem: parameters');
# in an upstream some that have a meaning only in locations are refused
my %not_there = map { $_ => 1 } qw(weight min max);
my $there = entry('dsem in an upstream');
is_deeply([sort $there->{syntax} =~ /(\w+)=/g],
    [sort grep { !$not_there{$_} } params('pool_params')],
    'dsem in an upstream: parameters');
is($there->{context}, join(', ', map { $_->[1] =~ /NGX_HTTP_UPS_CONF/
    ? 'upstream' : () } directives()), 'dsem in an upstream: context');
like(section('All others'), qr/^\| \[dsem\]\(.*?\) \| – \| upstream \| /m,
    'dsem in an upstream: row of the table');
is_deeply([sort $section{dsem_status}{syntax} =~ /(\w+)=/g],
    [sort { $a cmp $b } params('reasons')], 'dsem_status: reasons');

for my $name (grep { $directive{$_}{entry} =~ /_conf_enum,/ }
    sort keys %directive)
{
    my ($table) = $directive{$name}{entry} =~ /&ngx_http_dsem_(\w+) \}/;
    my ($words) = $section{$name}{syntax} =~ /^$name (.*);$/;
    is_deeply([split / \| /, $words], [params($table)], "$name: words");
}

# defaults

for my $name (sort keys %directive) {
    my $default = default_of($name) // next;
    is($section{$name}{default}, "$name $default;", "$name: default");
}

for my $name (qw(weight priority queue timeout share)) {
    my ($default) = $source =~ /_PARAM_\U$name\E\], (\d+)\);/;
    my ($number, $second) = param_default($name) =~ /^(\d+)(s?)$/;
    is($second ? 1000 * $number : $number, $default, "$name: default");
}

# ranges of values, as of variables a value out of range is an error of a request

for my $name (qw(limit weight priority queue timeout share)) {
    my ($range) = $readme =~ /^\* `$name`, (\S+ to [^\s,:]+)[,:]/m;
    is($range, range_of($name), "$name: range");
}

# for how long a name is marked as a dry run

my ($hours) = $source =~ /_COUNTERS_DRY\s+\((\d+) \* 3600 \* 1000\)/;
like($source, qr/the last requests, $hours hours ago at most/,
    'dry run: its metric');
like($page{'docs/api.md'}, qr/the last requests, $hours hours ago at most/,
    'dry run: docs/api.md');
like($page{'docs/alerts.md'} =~ s/\s+/ /gr,
    qr/has no more requests $hours hours after/, 'dry run: docs/alerts.md');

# variables

my @variables = section('Variables') =~ /^\| `(\$dsem\w+)` \|/mg;
is_deeply([sort @variables],
    [sort map { "\$$_" }
        $source =~ /ngx_string\("(dsem_\w+)"\), NULL,/g],
    'every variable, and no other');

# log

my $SENTENCE = qr/(?:`|^    )(dsem(?: \w+)?: [^`\n]+)(?:`|\n)/m;
my ($table) = $page{'docs/troubleshooting.md'} =~ /^(\| log \|.*?)^$/ms;
my %level = $table =~ /^\| `([^`]+)` \| ([^|]+?) \|/mg;
my @troubles = $table =~ /^\| `([^`]+)` \|/mg;
my %sentence = map { $_ => 1 } @troubles, $all =~ /$SENTENCE/g;
my @explained = (@troubles, $readme =~ /$SENTENCE/g);
my @formats = formats($source);
# those of other files are of "nginx -t", or of no variable
my @reasons = reasons(sources('c',
    qr{/(?:redis|session|fleet|semaphore)/(?!ngx_http_dsem_tls\.c)}));
cmp_ok(scalar @explained, '>=', 40, 'sentences found');
cmp_ok(scalar @reasons, '>=', 40, 'reasons found');
is_deeply(\@troubles, [sort { plain($a) cmp plain($b) } @troubles],
    'docs/troubleshooting.md: sorted');
for my $line (sort keys %sentence) {
    my $name = substr $line, 0, 60;
    my ($format) = grep { written_so($line, $_) } @formats;
    ok($format, "logged: $name");
    next if !$format || !$level{$line};
    is($level{$line}, { err => 'error', variable => 'by `dsem_log_level`' }
        ->{ $format->{level} } // $format->{level}, "level: $name");
}
# one with another literal may be explained by the literal
my %row = map { $_->{text} => 1 } grep { explained($_) } @formats;
for my $format (grep { $_->{level} =~ /notice|warn|err|alert|crit|variable/ }
    @formats)
{
    my @words = @{ $format->{words} };
    ok(explained($format) || $row{ $format->{text} }
        && @words == grep({ $_ ne '' && index($all, $_) > 0 } @words),
        join ' ', 'explained:', substr($format->{text}, 0, 60), @words);
}

# words of a line that docs/alerts.md tells to look for; these are of nginx
my %nginx = map { $_ => 1 } 'exited on signal', 'no live upstreams';
for my $words ($page{'docs/alerts.md'} =~ /`([a-z]+(?: [a-z]+)+)`/g) {
    ok($nginx{$words} || grep({ "$_->{re}" =~ /\Q\Q$words\E\E/ } @formats),
        "alerts: $words");
}

# causes

my @causes = section('Causes') =~ /^\| `([^`]+)`/mg;
is_deeply(\@causes, [sort { plain($a) cmp plain($b) } @causes],
    'causes: sorted');
for my $cause (map { /`([^`]+)`/g } section('Causes') =~ /^\| ([^|]+) \|/mg) {
    ok(reason($cause =~ s/…/x/gr) || reason($cause =~ s/\W*…$//r),
        "cause: $cause");
}
my @quoted = $all =~ /`([^`\n]+)`/g;
my @begun = map { /(.{8,}?)\W*…$/ ? $1 : () } @causes;
for my $reason (@reasons) {
    ok(grep({ $_ =~ $reason->{re} || $_ =~ $reason->{short} } @quoted)
        || grep({ index($reason->{text}, $_) == 0 } @begun),
        "explained: $reason->{text}");
}

# links

is_deeply([astray(sub {
    my ($target, $anchor) = @_;
    my $there = defined $document{$target} || -e "$root/$target";
    return $there && ($anchor eq ''
        || grep { $_ eq $anchor } anchors($document{$target} // ''));
}, %document)], [], 'links lead somewhere');
is_deeply([grep { !/\]\(/ } ($readme =~ /^## Operation\n.*?\n(\|.*?)^$/ms)[0]
    =~ /^(\| [^|]+\? \|.*)$/mg], [], 'questions have links');

# what nginx, rules and the package say of pages

my @named = map { $source =~ m{\b((?:README|docs/\w+)\.md)\b}g } 1;
cmp_ok(scalar @named, '>=', 1, 'pages named by the module');
ok(defined $page{$_}, "named by the module: $_") for @named;
like(page('debian/rules'), qr/^\tdh_compress -X\.md$/m,
    'packaged pages are not compressed');
like(page('debian/libnginx-mod-http-dsem.install'),
    qr{^docs/\*\.md usr/share/doc/libnginx-mod-http-dsem/docs$}m, 'packaged');

# configurations

for my $text ($all =~ /^```nginx\n(.*?)^```$/msg) {
    is(faults(Fleet::Conf::relocate(whole($text), here())), '',
        'configuration that is shown');
}

is(faults(Fleet::Conf::relocate(page('conf.example'),
    here(qw(user pid error_log)),
    access_log => '%%DIR%%/fleet.log fleet')), '', 'conf.example');

is(faults("events { }\nhttp {\n"
    . join("\n", map { $section{$_}{default} }
        grep { $section{$_}{default} =~ /^dsem/ } sort keys %section)
    . "\n}\n"), '', 'every default can be written');

quick_start();

# Redis, as a user that may do what docs/redis.md says and no more

my ($user) = section('Permissions') =~ /^```\n(user dsem .*?)^```$/ms;
my @may = map { /^\+(.*)/ ? $1 : () } split ' ', $user;
my %used = map { lc($_) => 1 }
    map { page($_) =~ /\b(?:redis\.p|redis\.|queue_)call\('(\w+)'/g }
    map { s{^\Q$root\E/}{}r } glob "$root/lua/*.lua $root/lua/include/*.lua";
my ($again) = $document{'lua/README.md'} =~ /^```\n(user dsem .*?)^```$/ms;
is_deeply([sort split ' ', $again], [sort split ' ', $user],
    'lua/README.md has the same user');
is_deeply([sort @may],
    [sort keys %used, qw(evalsha script|exists script|load subscribe ping
        client|setname)],
    'commands of the scripts listed');

my $redis = $t->redis;
my $up = $t->upstream;
my $admin = $redis->client;
$redis->cmd('ACL', 'SETUSER', (split ' ', $user)[1], 'reset',
    (split ' ', $user)[2 .. (split ' ', $user) - 1]);

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%% user=dsem password=password;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem reports limit=1 queue=2;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $held = $node->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'one at the backend';
my $queued = $other->begin('/?hang=1');
my $leaving = $other->begin('/');
wait_for { waiting() == 2 } 15, 'two waiting';
$leaving->close;
wait_for { waiting() == 1 } 15, 'one of them gone';

# keys and fields, while there are some

is_deeply([undocumented()], [], 'nothing else in Redis');
$admin->cmd(qw(CLIENT KILL TYPE normal SKIPME yes));
$up->release(1);
is($held->wait->status, 200, 'the first answered');
wait_for { $up->now == 1 } 15, 'the second at the backend';
$up->release(1);
is($queued->wait->status, 200, 'the second answered');
ok(!$_->grep_log(qr/rejects commands|unavailable \(/), 'no command refused')
    for $node, $other;

done_testing();

###############################################################################
# the pages

# Syntax, default and context of a directive.
sub entry {
    my ($name) = @_;
    my $text = section($name);
    my ($syntax) = $text =~ /^    Syntax:   (.*?)^    Default:/ms;
    my ($default) = $text =~ /^    Default:  (.*)/m;
    my ($context) = $text =~ /^    Context:  (.*)/m;
    return { syntax => join(' ', split ' ', $syntax // ''),
        default => $default, context => $context };
}

# What a sentence of the log, or a cause, is sorted by.
sub plain {
    my ($text) = @_;
    return lc($text) =~ s/^dsem: //r =~ s/[^a-z0-9 ]//gr;
}

sub param_default {
    my ($name) = @_;
    my ($value) = $readme =~ /^\* `$name`, (?:\S+ to \S+, )?(\S+) by default/m;
    return $value;
}

###############################################################################
# the sources

# All of the module, whatever its folders are.
sub sources {
    my ($ending, $folder) = @_;
    my @files;
    find({ no_chdir => 1, wanted => sub {
        push @files, $_ if /\.$ending$/ && (!$folder || /$folder/) } },
        "$root/ngx_module");
    return join '', map { Fleet::Conf::read_text($_) } sort @files;
}

# [name, contexts, the whole entry]
sub directives {
    my ($table) = $source =~
        /ngx_http_dsem_commands\[\] = \{\n(.*?)ngx_null_command/s;
    return map {
        /ngx_string\("(dsem\w*)"\),\s+(NGX_HTTP_[\w|]+),(.*)/s
            ? [$1, $2, $3] : ()
    } split /^    (?=\{ ngx_string)/m, $table;
}

sub params {
    my ($table) = @_;
    my ($list) = $source =~ /ngx_http_dsem_$table\[\] = \{(.*?)^\};/ms;
    # rows that several tables have are a macro
    $list =~ s{^ +(ngx_http_dsem_\w+)$}
        {($source =~ /^#define $1 +\\\n((?:.*\\\n)*.*)/m)[0] // ''}gme;
    return $list =~ /\("(\w+)"/g;
}

# As it would be written; undefined where it depends on the machine.
sub default_of {
    my ($name) = @_;
    my ($member) = $directive{$name}{entry} =~ /offsetof\(\w+, (\w+)\)/;
    return $source =~ /static ngx_str_t  address = ngx_string\("(.*?)"\)/ && $1
        if $name eq 'dsem_redis';
    return { NGX_HTTP_SERVICE_UNAVAILABLE => 503 }->{ merged('status') }
        if $name eq 'dsem_status';
    return unless $member;
    return $1 if $source =~ /ngx_str_set\(&dmcf->$member, "(.*?)"\)/;
    return written($1)
        if $source =~ /init_msec_value\(dmcf->$member, (\d+)\)/;
    return written($1)
        if $source =~ /merge_msec_value\(conf->$member, prev->$member, (\d+)\)/;
    my $value = merged($member) // return;
    my ($table) = $directive{$name}{entry} =~ /&ngx_http_dsem_(\w+) \}/;
    return $source =~ /ngx_http_dsem_$table\[\] = \{[^;]*?"(\w+)"\), $value \}/
        && $1;
}

# "0 to 7"; of a time in ms.
sub range_of {
    my ($name) = @_;
    my ($unit, $low, $high) = $source
        =~ /_(number|number_or_auto|time)\("$name", (\S+),[\s\\]+(\S+), 1\)/
        or return undef;
    return join ' to ', map { constant($_) . ($unit eq 'time' ? 'ms' : '') }
        $low, $high;
}

sub constant {
    my ($word) = @_;
    $word = $1 while $headers =~ /^#define $word +(\S+)$/m;
    return $word eq 'NGX_MAX_INT32_VALUE' ? 2**31 - 1 : $word;
}

sub merged {
    my ($member) = @_;
    return $source =~ /merge_\w*value\(conf->$member, prev->$member,\s+(\w+)\)/
        ? $1 : undef;
}

sub written {
    my ($ms) = @_;
    return 'off' if $ms == 0;
    return $ms % 1000 ? "${ms}ms" : $ms / 1000 . 's';
}

# Whether a sentence has this form.
sub explained {
    my ($format) = @_;
    return scalar grep { written_so($_, $format) } @explained;
}

# Whether the line has the form, and text for "%s" is one that the module has.
sub written_so {
    my ($line, $format) = @_;
    my @groups = $line =~ $format->{re} or return 0;
    return !grep { / / && !reason($_) } @groups[@{ $format->{open} }];
}

# Whether a text is one of the module; those of the system, of hiredis and of
# Redis begin with a capital.
sub reason {
    my ($text) = @_;
    return $text =~ /^[A-Z]/ || grep { $text =~ $_->{re}
        || index($_->{text}, $text) == 0 } @reasons;
}

###############################################################################
# nginx and Redis

# What the harness says for itself goes out; the rest is as a reader has it.
sub here {
    my (@gone) = @_;
    return (load_module => undef, listen => '127.0.0.1:%%PORT%%',
        map { $_ => undef } @gone);
}

# A configuration that loads the module lacks nothing.
sub whole {
    my ($text) = @_;
    return $text =~ /^(?:events|load_module)\b/m ? $text : "events { }\n$text";
}

sub faults {
    my ($text) = @_;
    my ($status, $said) = $t->test_conf("%%GLOBALS%%\n"
        . Fleet::Conf::add_to_http($text, '%%HTTP%%'));
    return join "\n", ($status ? "exit status $status" : ()),
        grep { /\[(?!notice|info)\w+\]/ } split /\n/, $said;
}

# The commands of the quick start give what it shows, times aside.
sub quick_start {
    my $text = section('Quick start');
    my ($server) = $text =~ /<<'EOF'\n(.*?)^    EOF$/ms;
    my @shown = $text =~ /^    (\d{3} [A-Z]+) [\d.]+$/mg;
    my ($loop) = $text =~ /^(    \(for .*?done; wait\))$/ms;
    $server =~ s/127\.0\.0\.1:8000/127.0.0.1:%%PORT%%/g;
    $server =~ s/127\.0\.0\.1:8001/127.0.0.1:%%PORT2%%/g;
    my $redis = $t->redis;
    my $node = $t->node('quick', "%%GLOBALS%%\nevents { }\nhttp {\n"
        . "%%HTTP%%\ndsem_redis %%REDIS%%;\n$server}\n");
    $loop =~ s{http://127\.0\.0\.1:8000}{'http://127.0.0.1:' . $node->port}e;
    my @got = map { s/ [\d.]+$//r } split /\n/, qx($loop);
    is_deeply([sort @got], [sort @shown], 'quick start: six requests');
    my ($sentence) = $text =~ /^    (dsem rejected: .*)$/m;
    cmp_ok(scalar($node->grep_log(qr/\Q$sentence\E/)), '>', 0,
        'quick start: logged');
    $node->quit;
}

sub waiting {
    return Dsem::State->new($admin)->waiting('reports');
}

# Keys, and fields other than names of sessions, that no table of
# lua/README.md names.
sub undocumented {
    my $tables = page('lua/README.md');
    my %shard = Dsem::State->new($admin)->shard_keys;
    my @found;
    for my $key (@{ $admin->cmd('KEYS', '*') }) {
        my $shown = $key =~ s/^dsem/P/r =~ s/reports$/<name>/r;
        push @found, $key if index($tables, "| `$shown` | ") < 0;
        next if $key eq ($shard{epochs} // '')
            || $admin->cmd('TYPE', $key) ne 'hash';
        my ($row) = $tables =~ /^(\| `\Q$shown\E` .*)$/m;
        push @found, map { "$key $_" }
            grep { !/:/ && ($row // '') !~ /`$_`/ }
            @{ $admin->cmd('HKEYS', $key) };
    }
    return @found;
}
