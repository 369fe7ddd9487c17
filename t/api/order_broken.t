#!/usr/bin/perl

# A change of a semaphore whose key in Redis is of another type: Redis has
# answered, nothing is changed, and the operator reads why.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location / {
    dsem a limit=3;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

sub change {
    my ($limit) = @_;
    return $node->get('/dsem/semaphores/a', -method => 'PATCH',
        'Content-Type' => 'application/json', -body => qq({"limit": $limit}));
}

$t->state->cmd('SET', $t->state->semaphore_key('a'), 'x');
my $answer = change(2);
is $answer->status, 409, 'refused';
like $answer->body, qr/a key of \S+ in Redis is of another type, nothing has/,
    'with the reason';
is $t->state->ordered('a'), undef, 'no order';
is scalar($node->grep_log(qr/no reply to a change/)), 0, 'Redis has replied';

$t->state->delete_semaphore('a');
is change(2)->status, 200, 'changed when the key is deleted';

$t->done;
