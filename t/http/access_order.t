#!/usr/bin/perl

# Access control speaks first: who is not let in takes nothing and waits for
# nothing, even where the queue is long. Who is let in is limited, in every
# combination of satisfy, allow, deny, auth_basic and auth_request; and the
# statuses are those of the same locations without dsem.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my %control = (
    nothing => '',
    allow => 'allow 127.0.0.1; deny all;',
    deny => 'deny all;',
    basic => 'auth_basic x; auth_basic_user_file %%DIR%%/../users;',
    request => 'auth_request /auth;',
);
my %location = (
    nothing => [], allow => ['allow'], deny => ['deny'],
    basic => ['basic'], request => ['request'],
    allow_basic => [qw(allow basic)], deny_basic => [qw(deny basic)],
    deny_request => [qw(deny request)], allow_request => [qw(allow request)],
    basic_request => [qw(basic request)],
    deny_basic_request => [qw(deny basic request)],
);

# each three times: with satisfy all and any, limited and not
my $locations = '';
for my $name (sort keys %location) {
    for my $satisfy (qw(all any)) {
        for my $limited (0, 1) {
            $locations .= join "\n            ",
                "        location = /$satisfy/$name/$limited {",
                "satisfy $satisfy;", @control{ @{ $location{$name} } },
                ($limited ? 'dsem one limit=1 queue=200 timeout=60s;' : ()),
                'proxy_pass http://%%UPSTREAM%%;';
            $locations .= "\n        }\n";
        }
    }
}

open my $users, '>', $t->dir . '/users' or die "users: $!";
print $users "user:{PLAIN}secret\n";
close $users;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    add_header X-Dsem $dsem_status always;
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /auth {
            if ($http_token = good) {
                return 204;
            }
            return 403;
        }
        location = /hold {
            dsem one limit=1;
            proxy_pass http://%%UPSTREAM%%;
        }
%%LOCATIONS%%
    }
}
EOF_CONF
$conf =~ s/%%LOCATIONS%%\n/$locations/;
my $node = $t->node('n1', $conf);

my @who = (
    [nobody => ()],
    [user => (Authorization => 'Basic dXNlcjpzZWNyZXQ=')],
    [wrong => (Authorization => 'Basic dXNlcjp3cm9uZw==')],
    [token => (Token => 'good')],
    [both => (Authorization => 'Basic dXNlcjpzZWNyZXQ=', Token => 'good')],
);

# with a permit free: the same statuses, and limited where let in

my ($let_in, $refused) = (0, 0);
for my $case (cases()) {
    my ($path, $as, @header) = @$case;
    my $without = $node->get("$path/0", @header);
    my $with = $node->get("$path/1", @header);
    is($with->status, $without->status, "status of $as");
    my $in = $without->status == 200;
    is($with->header('X-Dsem') // '', $in ? 'PASSED' : '',
        'allowed requests limited');
    $in ? $let_in++ : $refused++;
}
cmp_ok($let_in, '>', 20, 'many requests allowed');
cmp_ok($refused, '>', 20, 'many requests denied');

# with none free: who is let in waits, who is not hears it at once

my $holder = $node->begin('/hold?hang=1');
wait_for { $up->now == 1 };
my @asked = map {
    my ($path, $as, @header) = @$_;
    my $status = $node->get("$path/0", @header)->status;
    [$status, $as, $node->begin("$path/1", @header)];
} cases();
my @waiting = grep { $_->[0] == 200 } @asked;
my @denied = grep { $_->[0] != 200 } @asked;
$_->[2]->wait for @denied;
eventually { $t->state->counts('one') eq '1 ' . @waiting }
    'allowed requests queued, no other';
$up->reset;
my %logged;
wait_for {
    %logged = map { $_->{http_x_nonce} => $_ } $node->access_log;
    !grep { !$logged{ $_->[2]->nonce } } @denied;
};
for my $ask (@denied) {
    my ($status, $as, $request) = @$ask;
    is($request->status, $status, "$as denied");
    is($logged{ $request->nonce }{dsem_status}, '', 'no permit requested');
    cmp_ok($request->took, '<', 15, 'no ticket queued');
}
is(scalar(grep { $_->[2]->done } @waiting), 0, 'no waiting request served');
is($up->started, 0, 'no request at backend');
$up->release_all;
is($holder->wait->status, 200, 'holder served');
for my $ask (@waiting) {
    my ($status, $as, $request) = @$ask;
    is($request->wait->status, 200, "$as served");
    is($request->header('X-Dsem'), 'QUEUED', 'after a wait');
}
is($up->peak, 1, 'one at a time');

done_testing();

sub cases {
    return map {
        my $path = $_;
        map { [$path, "$path, $_->[0]", @$_[1 .. $#$_]] } @who;
    } map { ("/all/$_", "/any/$_") } sort keys %location;
}
