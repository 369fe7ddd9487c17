#!/usr/bin/perl

# Access control in Lua, which yields before it decides, in every combination
# with satisfy, allow, deny, auth_basic and auth_request; as the last word and
# in its own place, with either module loaded first. Statuses are those of the
# same locations without dsem; who is not let in asks Redis for nothing and
# waits for nothing; all others wait for the one permit.

use lib 't/lib';
use Dsem::Lua;
use Dsem::Test;

my $lua = lua_modules;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my @address = ('', 'allow 127.0.0.1; deny all;', 'deny all;');
my @basic = ('', 'auth_basic x; auth_basic_user_file %%DIR%%/../users;');
my @request = ('', 'auth_request /auth;');
my @lua = ('', <<'EOF_LUA' =~ s/\s+$//r);
access_by_lua_block {
                ngx.sleep(0.002)
                ngx.exit(ngx.var.http_lua == "good" and ngx.OK or 403)
            }
EOF_LUA

my (@paths, $locations);
for my $n (0 .. 47) {
    my $satisfy = $n & 1 ? 'any' : 'all';
    my @control = grep { $_ } $address[$n >> 4], $basic[$n >> 1 & 1],
        $request[$n >> 2 & 1], $lua[$n >> 3 & 1];
    push @paths, '/' . join '_', $satisfy, map { /^(\w+)/ } @control;
    $locations .= join "\n            ", "        location = $paths[-1] {",
        "satisfy $satisfy;", @control, '%%DSEM%%',
        "proxy_pass http://%%UPSTREAM%%;\n        }\n";
}

open my $users, '>', $t->dir . '/users' or die "users: $!";
print $users "user:{PLAIN}secret\n";
close $users;

my $conf = <<'EOF_CONF' =~ s/%%LOCATIONS%%\n/$locations/r;
%%FIRST%%
%%GLOBALS%%
%%LAST%%
events { worker_connections 2048; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_reuse off;
    access_by_lua_no_postpone %%NO_POSTPONE%%;
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

my %good = (Authorization => 'Basic dXNlcjpzZWNyZXQ=', Token => 'good',
    Lua => 'good');
my @who = ({}, (map { { $_ => $good{$_} } } sort keys %good), \%good);

for my $own_place (qw(off on)) {
    my $without = $t->node("without_$own_place", $conf, FIRST => $lua,
        LAST => '', NO_POSTPONE => $own_place, DSEM => '');
    my %status = map { $_ => [statuses($without, $_)] } @paths;
    for my $last ($lua ? (0, 1) : 0) {
        my $node = $t->node("lua_${own_place}_$last", $conf,
            ($last ? (FIRST => '', LAST => $lua)
                : (FIRST => $lua, LAST => '')),
            NO_POSTPONE => $own_place,
            DSEM => 'dsem one limit=1 queue=1000 timeout=30s;');
        same($node, \%status);
        limited($node, \%status);
    }
}

done_testing();

sub statuses {
    my ($node, $path) = @_;
    my @requests = map { $node->begin($path, %$_) } @who;
    return map { $_->wait->status } @requests;
}

# with a permit free for everybody who is let in: one of these after the other
sub same {
    my ($node, $expected) = @_;
    my (@wrong, %seen);
    for my $path (@paths) {
        my @requests = map {
            my $request = $node->begin($path, %{ $who[$_] });
            $expected->{$path}[$_] == 200 ? $request->wait : $request;
        } 0 .. $#who;
        for my $i (0 .. $#who) {
            my $request = $requests[$i]->wait;
            my $told = $request->header('X-Dsem') // '';
            my $status = $expected->{$path}[$i];
            $seen{$status}++;
            push @wrong, "$path $i: " . $request->status . " $told"
                if $request->status != $status
                || $told ne ($status == 200 ? 'PASSED' : '');
        }
    }
    is_deeply(\@wrong, [], $node->name . ': same statuses');
    ok($seen{200} > 50 && $seen{401} > 20 && $seen{403} > 50,
        'both outcomes frequent');
}

# with none free
sub limited {
    my ($node, $expected) = @_;
    my $holder = $node->begin('/hold?hang=1');
    wait_for { $up->now == 1 };
    $up->reset;

    my (@in, @out);
    for my $path (@paths) {
        push @{ $expected->{$path}[$_] == 200 ? \@in : \@out },
            [$path, $who[$_], $expected->{$path}[$_]] for 0 .. $#who;
    }
    my $calls = $redis->calls->{evalsha};
    my ($begun, @wrong) = (now);
    while (my @some = splice @out, 0, 20) {
        my @requests = map { $node->begin($_->[0], %{ $_->[1] }) } @some;
        for my $i (0 .. $#some) {
            my ($path, undef, $status) = @{ $some[$i] };
            # the holder stays, and the queue has a timeout of 30 s
            push @wrong, $path if $requests[$i]->wait->status != $status
                || $requests[$i]->took > 15;
        }
    }
    is_deeply(\@wrong, [], 'denied at once');
    # a heartbeat and a check of the limit each second
    cmp_ok($redis->calls->{evalsha} - $calls, '<',
        5 * (now - $begun) + 10, 'redis not called');
    is(state(), '1 0', 'no ticket waiting');

    my @waiting = map { $node->begin($_->[0], %{ $_->[1] }) } @in;
    eventually { state() eq '1 ' . @in } 'all others queued';
    is($up->started, 0, 'no waiting request at backend');
    $up->release_all;
    is($holder->wait->status, 200, 'holder served');
    is(scalar(grep { $_->wait->status != 200 } @waiting), 0,
        'all queued requests served');
    is($up->peak, 1, 'one at a time');
    eventually { state() eq '0 0' } 'nothing left';
}

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
