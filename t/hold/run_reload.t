#!/usr/bin/perl

# bin/dsem-run waits at an nginx that is reloaded, for longer than
# "worker_shutdown_timeout": the old worker refuses it, and says that it can be
# asked again at once. It waits in the new worker, and the command runs.

use lib 't/lib';
use Dsem::Program qw(shells);
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
worker_shutdown_timeout 2s;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /jobs {
            dsem jobs limit=1 queue=10 timeout=10m;
            dsem_hold;
        }
        location /ends {
            add_header Dsem-Status ERROR always;
            add_header Retry-After 0 always;
            return 503;
        }
        location /later {
            add_header Dsem-Status ERROR always;
            add_header Retry-After 10 always;
            return 503;
        }
    }
}
EOF_CONF

my ($node, $other) = map { $t->node($_, $conf) } qw(a b);
my %shell = shells();
my $again = 'a worker of this nginx ends, it is asked again';

sub started {
    my ($shell, @args) = @_;
    return Dsem::Program->start($shell{$shell}, @args, '--', 'echo', 'in');
}

# the permit is elsewhere

my $holder = $other->hold('/jobs');
my $url = $node->url('/jobs');
my %run = map { $_ => started($_, $url) } keys %shell;
$run{time} = started('dash', '-w', 600, $url);
$run{others} = started('dash', $url, $other->url('/jobs'));
wait_for { $t->state->waiting('jobs') == keys %run } 15, 'all wait';

$node->reload;
is $run{$_}->line, "dsem-run: $url: $again\n", "$_: asked again"
    for sort keys %run;
eventually { $t->state->waiting('jobs') == keys %run } 'all wait again';
eventually { !$node->draining } 'in the new worker';

$holder->close;
for my $name (sort keys %run) {
    my ($status, $out) = $run{$name}->finish;
    is $status, 0, "$name: its command has run";
    is $out, "in\n", "$name: and no other nginx was asked";
}

# only if the next answer can come in time, and may be another one

for (['/ends', '-n'], ['/ends', '-w', 1], ['/later', '-w', 60]) {
    my ($path, @wait) = @$_;
    my $name = "$path @wait";
    my ($status, $out) = started('dash', @wait, $node->url($path))->finish;
    is $status, 69, "$name: an error";
    like $out, qr/: an error, the answer is 503\n\z/, "$name: which is said";
    is scalar(() = $out =~ /asked again/g), 0, "$name: asked once"
        if $name ne '/ends -w 1';
}

$t->done;
