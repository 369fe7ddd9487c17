#!/usr/bin/perl

# bin/dsem-run: a refusal says whether there is no permit, which is so at each
# nginx, or whether this nginx has an error: then the next one is asked, and no
# error is a conflict. The status code is what "dsem_status" makes it.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(shells write_program);
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout %%TIMEOUT%%;
dsem_max_waiting 1;
dsem_lease 60s;
location /jobs {
    dsem jobs limit=1;
    dsem_on_error reject;
    dsem_hold;
}
location /busy {
    dsem jobs limit=1 queue=1 timeout=300ms;
    dsem_status 529;
    dsem_retry_after off;
    dsem_hold;
}
location /empty {
    dsem $arg_name limit=1;
    dsem_hold;
}
location /page {
    dsem jobs limit=1;
    dsem_hold;
    error_page 503 =200 /other;
}
location /other { return 200 "granted\n"; }
location /plain {
    dsem jobs limit=1;
    empty_gif;
}
location /before { return 503; }
location /wide {
    dsem wide limit=4 queue=9;
    dsem_hold;
}
location /waits {
    dsem waits limit=1 queue=9 timeout=60s;
    dsem_hold;
}
EOF_CONF

my $cut = $t->node('cut', $conf, REDIS => $proxy->address,
    TIMEOUT => '200ms');
my $node = $t->node('whole', $conf, TIMEOUT => '20s');
my %shell = shells();

sub run_is {
    my ($name, $args, $status, $out) = @_;
    my @got = Dsem::Program->start($shell{dash}, @$args, '--', 'echo', 'in')->finish;
    is $got[0], $status, "$name: status";
    like $got[1], $out, "$name: output";
}

# what a refusal says

sub said { return $_[0]->header('Dsem-Status') }

my $holder = $node->hold('/jobs');
is said($node->get('/jobs')), 'REJECTED', 'no place in the queue';
is said($node->get('/busy')), 'TIMEOUT', 'not in time';
is said($node->get('/busy', Prefer => 'wait=0')), 'REJECTED', 'not at once';
is said($node->get('/page')), 'REJECTED', 'whatever the page';
is said($node->get('/empty')), 'ERROR', 'nothing to hold';
is said($node->get('/plain')), undef, 'nothing where no program asks';

# no permit is the answer of all

my $jobs = $node->url('/jobs');
for my $path (qw(/jobs /busy /page)) {
    run_is "no permit at $path", [ $node->url($path), $cut->url('/jobs') ],
        75, qr/\A\Qdsem-run: no permit at @{[ $node->url($path) ]}\E\n\z/;
}
$holder->close;
eventually { !$t->state->held('jobs') } 'permit back';

# an error is not

run_is 'another program before it', [ $node->url('/before'), $jobs ],
    0, qr/\Q\/before: the answer is 503\E\nin\n\z/;
# the page of the first one is still in the pipe when the next is asked

my $bin = tempdir(CLEANUP => 1);
write_program("$bin/curl", <<"EOF_CURL");
#!/bin/sh
sleep 2 &
PATH=\${PATH#*:} exec curl "\$@"
EOF_CURL
{
    local $ENV{PATH} = "$bin:$ENV{PATH}";
    run_is 'a curl that ends late', [ $node->url('/before'), $jobs ],
        0, qr/\Q\/before: the answer is 503\E\nin\n\z/;
}
run_is 'nothing to hold', [ '-E', 0, $node->url('/empty') ],
    69, qr/\Q\/empty: an error, the answer is 503\E\n\z/;

$cut->clear_logs;
$proxy->refuse;
$proxy->cut;
wait_for { $cut->grep_log(qr/unavailable \(/) } 15, 'Redis unavailable';
is said($cut->get('/jobs')), 'ERROR', 'Redis unavailable';
run_is 'another nginx', [ $cut->url('/jobs'), $jobs ],
    0, qr/: an error, the answer is 503\nin\n\z/;
is said($cut->get('/wide')), 'ERROR', 'this nginx has no permit of its own';
run_is 'another nginx has', [ '-n', map { $_->url('/wide') } $cut, $node ],
    0, qr/: an error, the answer is 503\nin\n\z/;
run_is 'no other nginx', [ '-E', 0, $cut->url('/jobs') ],
    69, qr/: an error, the answer is 503\n\z/;

# so many wait in one worker, that there is no place for this one

$holder = $node->hold('/waits');
my $waits = $node->begin('/waits');
wait_for { $t->state->waiting('waits') == 1 } 15, 'one waits';
is said($node->get('/waits')), 'ERROR', 'too many wait in this worker';
$waits->close;
$holder->close;

$proxy->refuse(0);
wait_for { $cut->grep_log(qr/available again/) } 15, 'Redis available';

$t->done;
