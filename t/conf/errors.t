#!/usr/bin/perl

# "nginx -t" finds every error in the configuration, with one sentence that
# names the word at fault and its line.

###############################################################################

use lib 't/lib';
use Dsem::Test;

###############################################################################

# each: title, text in http{}, expected sentence

my $server = 'server { location / { %s } }';

my $number = 'it must be a number';
my $limits = 'it must be between 0 and 1000000000';

my @wrong = (

    # parameters of a dsem line

    ['no arguments', 'dsem;',
        'invalid number of arguments in "dsem" directive'],
    ['no limit', 'dsem a;',
        '"dsem" directive must have "limit" parameter'],
    ['no limit beside others', 'dsem a queue=1 timeout=1s;',
        '"dsem" directive must have "limit" parameter'],
    ['no name', 'dsem limit=20 queue=100;',
        '"dsem" directive has no name before "limit=20"'],
    ['empty name', 'dsem "" limit=1;',
        '"dsem" directive has an empty name'],
    ['unknown parameter', 'dsem a limit=1 burst=5;',
        'invalid parameter "burst=5" in "dsem" directive in'],
    ['parameter of a longer name', 'dsem a limits=1;',
        'invalid parameter "limits=1" in "dsem" directive'],
    ['parameter of another name', 'dsem a limit=1 quota=5;',
        'invalid parameter "quota=5" in "dsem" directive'],
    ['parameter in capitals', 'dsem a LIMIT=1;',
        'invalid parameter "LIMIT=1" in "dsem" directive'],
    ['parameter without sign', 'dsem a limit;',
        'invalid parameter "limit" in "dsem" directive'],
    ['empty parameter', 'dsem a limit=1 "";',
        'invalid parameter "" in "dsem" directive'],
    ['two names', 'dsem a b limit=1;',
        'invalid parameter "b" in "dsem" directive, write it as name=value in'],
    ['limit as a number', 'dsem a 10;',
        'invalid parameter "10" in "dsem" directive, write it as name=value in'],
    (map {
        ["duplicate $_", "dsem a limit=1 $_=1 $_=2;",
            qq(duplicate parameter "$_" in "dsem" directive)],
        ["empty $_", "dsem a $_= priority=0;",
            qq("$_" parameter in "dsem" directive has no value)]
    } qw(limit queue timeout weight)),
    ['duplicate priority', 'dsem a limit=1 priority=1 priority=2;',
        'duplicate parameter "priority" in "dsem" directive'],
    ['empty priority', 'dsem a limit=1 priority=;',
        '"priority" parameter in "dsem" directive has no value'],

    # values of the parameters

    ['limit in words', 'dsem a limit=abc;',
        qq(invalid value "abc" of "limit" parameter in "dsem" directive, $number)],
    ['limit with a tail', 'dsem a limit=3x;',
        qq(invalid value "3x" of "limit" parameter in "dsem" directive, $number)],
    ['limit with a fraction', 'dsem a limit=1.5;',
        qq(invalid value "1.5" of "limit" parameter in "dsem" directive, $number)],
    ['limit with a plus', 'dsem a limit=+1;',
        qq(invalid value "+1" of "limit" parameter in "dsem" directive, $number)],
    ['limit of a sign', 'dsem a limit=-;',
        qq(invalid value "-" of "limit" parameter in "dsem" directive, $number)],
    ['negative limit', 'dsem a limit=-1;',
        qq(invalid value "-1" of "limit" parameter in "dsem" directive, $limits)],
    ['limit too large', 'dsem a limit=1000000001;',
        qq(invalid value "1000000001" of "limit" parameter in "dsem" directive, $limits)],
    ['limit of 2^64', 'dsem a limit=18446744073709551616;',
        qq(invalid value "18446744073709551616" of "limit" parameter in "dsem" directive, $limits)],
    ['limit of an unknown variable', 'dsem a limit=$dsem_nothing;',
        'unknown "dsem_nothing" variable'],
    ['name of an unknown variable', 'dsem $dsem_nothing limit=1;',
        'unknown "dsem_nothing" variable'],
    ['variable without a name', 'dsem a limit=1$;',
        'invalid variable name'],
    ['queue in words', 'dsem a limit=1 queue=all;',
        qq(invalid value "all" of "queue" parameter in "dsem" directive, it must be a number or "auto")],
    ['negative queue', 'dsem a limit=1 queue=-2;',
        qq(invalid value "-2" of "queue" parameter in "dsem" directive, $limits)],
    ['queue too large', 'dsem a limit=1 queue=1000000001;',
        qq(invalid value "1000000001" of "queue" parameter in "dsem" directive, $limits)],
    ['queue of an unknown variable', 'dsem a limit=1 queue=$dsem_nothing;',
        'unknown "dsem_nothing" variable'],
    ['timeout of zero', 'dsem a limit=1 timeout=0;',
        'invalid value "0" of "timeout" parameter in "dsem" directive, it must be between 1ms and 2147483647ms'],
    ['timeout too long', 'dsem a limit=1 timeout=30d;',
        'invalid value "30d" of "timeout" parameter in "dsem" directive, it must be between 1ms and 2147483647ms'],
    ['timeout that overflows', 'dsem a limit=1 timeout=1d99999999999999999999s;',
        'invalid value "1d99999999999999999999s" of "timeout" parameter in "dsem" directive, it must be between 1ms and 2147483647ms'],
    ['timeout of many words', 'dsem a limit=1 "timeout=' . '1 ' x 20 . '";',
        'invalid value "' . '1 ' x 20 . '" of "timeout" parameter in "dsem" directive, it must be a time'],
    ['zone size that overflows', 'dsem_zone_size 99999999999999999999m;',
        'invalid value "99999999999999999999m" in "dsem_zone_size" directive, it must be between 65536 bytes and 1073741824 bytes'],
    ['zone size in another unit', 'dsem_zone_size 99999999999999999999x;',
        'invalid value "99999999999999999999x" in "dsem_zone_size" directive, it must be a size'],
    ['timeout of units in another order', 'dsem a limit=1 timeout=99999999999999999999s1d;',
        'invalid value "99999999999999999999s1d" of "timeout" parameter in "dsem" directive, it must be a time'],
    ['timeout of a wrong unit', 'dsem a limit=1 timeout=5min;',
        'invalid value "5min" of "timeout" parameter in "dsem" directive, it must be a time'],
    ['weight of zero', 'dsem a limit=1 weight=0;',
        'invalid value "0" of "weight" parameter in "dsem" directive, it must be between 1 and 1000000000'],
    ['weight in words', 'dsem a limit=1 weight=heavy;',
        qq(invalid value "heavy" of "weight" parameter in "dsem" directive, $number)],
    ['weight above limit', 'dsem a weight=4 limit=3;',
        '"weight=4" is greater than "limit=3" in "dsem" directive'],
    ['priority too high', 'dsem a limit=1 priority=8;',
        'invalid value "8" of "priority" parameter in "dsem" directive, it must be between -8 and 7'],
    ['priority too low', 'dsem a limit=1 priority=-9;',
        'invalid value "-9" of "priority" parameter in "dsem" directive, it must be between -8 and 7'],
    ['priority in words', 'dsem a limit=1 priority=low;',
        qq(invalid value "low" of "priority" parameter in "dsem" directive, $number)],

    # lines that contradict each other

    ['off twice', 'dsem off; dsem off;', '"dsem" directive is duplicate'],
    ['off with a limit', 'dsem off limit=3;',
        'invalid parameter "limit=3" in "dsem off", a semaphore cannot be named "off"'],
    ['line after off', 'dsem off; dsem a limit=1;',
        'is not allowed beside "dsem off" of the same level'],
    ['off after a line', 'dsem a limit=1; dsem off;',
        '"dsem" directive with "off" is not allowed beside others of the same level'],
    ['two limits in one level', 'dsem a limit=1; dsem a limit=2;',
        qr/semaphore "a" has "limit=1" in \S+:\d+, but "limit=2"/],
    ['two limits in two levels',
        'dsem a limit=0; ' . sprintf($server, 'dsem a limit=2;'),
        qr/semaphore "a" has "limit=0" in \S+:\d+, but "limit=2"/],
    ['two limits after a variable',
        'dsem a limit=$arg_l; dsem a limit=1; dsem a limit=$arg_l;'
        . sprintf($server, 'dsem a limit=2;'),
        qr/semaphore "a" has "limit=1" in \S+:\d+, but "limit=2"/],
    ['opposite orders',
        'dsem a limit=1; dsem b limit=1; '
        . sprintf($server, 'dsem b limit=1; dsem a limit=1;'),
        qr/semaphore "a" is taken before "b" in \S+:\d+, but after it/],
    ['opposite orders among others',
        'dsem a limit=1; dsem x limit=1; dsem $arg_n limit=1; dsem b limit=1; '
        . sprintf($server, 'dsem y limit=1; dsem b limit=$arg_l; '
        . 'dsem z limit=1; dsem $arg_m limit=1; dsem a limit=1;'),
        qr/semaphore "a" is taken before "b" in \S+:\d+, but after it/],
    ['opposite orders in two servers',
        'server { dsem a limit=1; dsem b limit=1; } '
        . 'server { location / { location /x { dsem b limit=1; '
        . 'dsem a limit=1; } } }',
        qr/semaphore "a" is taken before "b" in \S+:\d+, but after it/],

    # address and options of Redis

    ['redis without address', 'dsem_redis;',
        'invalid number of arguments in "dsem_redis" directive'],
    ['redis with empty address', 'dsem_redis "";',
        'no host in address "" of "dsem_redis" directive'],
    ['redis twice', 'dsem_redis 127.0.0.1; dsem_redis 127.0.0.1;',
        '"dsem_redis" directive is duplicate'],
    ['redis of two addresses', 'dsem_redis 127.0.0.1 127.0.0.2;',
        'more than one address (a word without "=" is one) needs '
            . '"mode=sentinel" or "mode=cluster" in "dsem_redis" directive'],
    ['redis with a parameter', 'dsem_redis 127.0.0.1 colour=red;',
        'invalid parameter "colour" in "dsem_redis" directive'],
    ['redis as URL', 'dsem_redis redis://127.0.0.1:6379;',
        'URL in "dsem_redis" directive, write it as "dsem_redis host:port [user=name] [password=word] [db=number] [ssl]"'],
    ['redis as URL with a password', 'dsem_redis rediss://u:secret@127.0.0.1;',
        'URL in "dsem_redis" directive, write it as "dsem_redis host:port [user=name] [password=word] [db=number] [ssl]"'],
    ['redis without an address', 'dsem_redis db=1;',
        'no address in "dsem_redis" directive'],
    ['redis of an unknown mode', 'dsem_redis 127.0.0.1 mode=ring;',
        'invalid value "ring" of "mode" parameter in "dsem_redis" directive, it must be "single", "sentinel" or "cluster"'],
    ['redis of a sentinel without master', 'dsem_redis 127.0.0.1 mode=sentinel;',
        '"mode=sentinel" needs "master=name" in "dsem_redis" directive'],
    ['redis of a master without sentinel', 'dsem_redis 127.0.0.1 master=m;',
        '"master" needs "mode=sentinel" in "dsem_redis" directive'],
    ['redis of a sentinel\'s password', 'dsem_redis 127.0.0.1 sentinel_password=secret;',
        'a password of Sentinel needs "mode=sentinel" in "dsem_redis" directive'],
    ['redis of a cluster with db', 'dsem_redis 127.0.0.1 mode=cluster db=1;',
        'a Cluster has no "db" in "dsem_redis" directive'],
    ['redis of a cluster on a path', 'dsem_redis unix:/a unix:/b mode=cluster;',
        'a path needs "mode=single" in "dsem_redis" directive'],
    ['redis with db twice', 'dsem_redis 127.0.0.1 db=1 db=1;',
        'duplicate parameter "db" in "dsem_redis" directive'],
    ['redis with a password twice', 'dsem_redis 127.0.0.1 password=secret password=secret;',
        'duplicate parameter "password" in "dsem_redis" directive'],
    ['redis with an empty db', 'dsem_redis 127.0.0.1 db=;',
        '"db" parameter in "dsem_redis" directive has no value'],
    ['redis with a high db', 'dsem_redis 127.0.0.1 db=16384;',
        'invalid value "16384" of "db" parameter in "dsem_redis" directive, it must be between 0 and 16383'],
    ['redis with two passwords', 'dsem_redis 127.0.0.1 password=secret password_file=/f;',
        'both "password" and "password_file" in "dsem_redis" directive'],
    ['redis with a user only', 'dsem_redis 127.0.0.1 user=u;',
        '"user" without "password" in "dsem_redis" directive'],
    ['redis with a misspelled password', 'dsem_redis 127.0.0.1 pasword=secret;',
        'invalid parameter "pasword" in "dsem_redis" directive'],
    ['redis with a long password', 'dsem_redis 127.0.0.1 password=' . 'secret' x 86 . ';',
        'password in "dsem_redis" directive is longer than 512 bytes'],
    ['redis with a long user', 'dsem_redis 127.0.0.1 password=secret user=' . 'u' x 513 . ';',
        'user in "dsem_redis" directive is longer than 512 bytes'],
    ['redis with no password file', 'dsem_redis 127.0.0.1 password_file=/nowhere;',
        'open() password file "/nowhere" failed (2: No such file or directory)'],
    ['redis with an empty password file', 'dsem_redis 127.0.0.1 password_file=/dev/null;',
        'the first line of password file "/dev/null" must have 1 to 512 bytes'],
    ['redis with a directory as password file', 'dsem_redis 127.0.0.1 password_file=/;',
        'read() password file "/" failed (21: Is a directory)'],
    ['redis with a path', 'dsem_redis 127.0.0.1:6379/1;',
        'invalid host in address "127.0.0.1:6379/1" of "dsem_redis" directive'],
    ['redis of an unknown host', 'dsem_redis dsem.invalid:6379;',
        'in address "dsem.invalid:6379" of "dsem_redis" directive'],
    ['redis without host', 'dsem_redis :6379;',
        'no host in address ":6379" of "dsem_redis" directive'],
    ['redis with empty port', 'dsem_redis 127.0.0.1:;',
        'invalid port in address "127.0.0.1:" of "dsem_redis" directive'],
    ['redis on port 0', 'dsem_redis 127.0.0.1:0;',
        'invalid port in address "127.0.0.1:0" of "dsem_redis" directive'],
    ['redis on port 65536', 'dsem_redis 127.0.0.1:65536;',
        'invalid port in address "127.0.0.1:65536" of "dsem_redis" directive'],
    ['redis on a named port', 'dsem_redis 127.0.0.1:redis;',
        'invalid port in address "127.0.0.1:redis" of "dsem_redis" directive'],
    ['redis without path', 'dsem_redis unix:;',
        'no path in the unix domain socket in address "unix:" of "dsem_redis" directive'],
    ['redis of a long path', 'dsem_redis unix:/' . 'x' x 108 . ';',
        'too long path in the unix domain socket in address "unix:/x'],
    ['redis of an open bracket', 'dsem_redis [::1;',
        'invalid host in address "[::1" of "dsem_redis" directive'],
    ['redis of a bad IPv6 address', 'dsem_redis [::g]:6379;',
        'invalid IPv6 address in address "[::g]:6379" of "dsem_redis" directive'],

    # the other directives

    (map {
        ["$_ twice", "$_ 2s; $_ 2s;", qq("$_" directive is duplicate)],
        ["$_ in words", "$_ long;",
            qq(invalid value "long" in "$_" directive, it must be a time)],
        ["$_ empty", qq($_ "";),
            qq(invalid value "" in "$_" directive, it must be a time)],
        ["$_ of zero", "$_ 0;",
            qr/invalid value "0" in "$_" directive, it must be between \d+ms/],
        ["$_ of a variable", "$_ \$arg_t;",
            qq(invalid value "\$arg_t" in "$_" directive, it must be without variables)],
        ["$_ of two values", "$_ 1s 2s;",
            qq(invalid number of arguments in "$_" directive)]
    } qw(dsem_redis_connect_timeout dsem_redis_timeout dsem_lease)),

    ['lease too short', 'dsem_lease 999ms;',
        'invalid value "999ms" in "dsem_lease" directive, it must be between 1000ms and 3600000ms'],
    ['lease too long', 'dsem_lease 3601s;',
        'invalid value "3601s" in "dsem_lease" directive, it must be between 1000ms and 3600000ms'],
    ['max_waiting of zero', 'dsem_max_waiting 0;',
        'invalid value "0" in "dsem_max_waiting" directive, it must be between 1 and 1000000000'],
    ['max_waiting in words', 'dsem_max_waiting many;',
        qq(invalid value "many" in "dsem_max_waiting" directive, $number)],
    ['zone size in words', 'dsem_zone_size many;',
        'invalid value "many" in "dsem_zone_size" directive, it must be a size'],
    (map {
        ["zone size $_", "dsem_zone_size $_;",
            qq(invalid value "$_" in "dsem_zone_size" directive, it must be )
            . 'between 65536 bytes and 1073741824 bytes']
    } qw(1k 1025m 99999999999999999999 99999999999999999999m)),
    ['max_waiting twice', 'dsem_max_waiting 1; dsem_max_waiting 1;',
        '"dsem_max_waiting" directive is duplicate'],

    ['status in words', 'dsem_status busy;',
        qq(invalid value "busy" in "dsem_status" directive, $number)],
    ['status of a pass', 'dsem_status 200;',
        'invalid value "200" in "dsem_status" directive, it must be between 400 and 599'],
    # nginx closes the connection and sends nothing, or sends 400
    (map {
        my $code = $_;
        my $must = 'it must be a number other than 408, 444 and 499, with '
            . 'which nginx closes the connection, and 494 to 497';
        ["status $code", "dsem_status $code;",
            qq(invalid value "$code" in "dsem_status" directive, $must)],
        map { ["status $_=$code", "dsem_status 503 $_=$code;",
            qq(invalid value "$code" of "$_" parameter in "dsem_status" )
            . "directive, $must"] } qw(full timeout error)
    } 408, 444, 494 .. 497, 499),
    ['status too large', 'dsem_status 600;',
        'invalid value "600" in "dsem_status" directive, it must be between 400 and 599'],
    ['status of a variable', 'dsem_status $arg_s;',
        'invalid value "$arg_s" in "dsem_status" directive, it must be without variables'],
    ['status of a reason only', 'dsem_status full=429;',
        qq(invalid value "full=429" in "dsem_status" directive, $number)],
    ['status of an unknown reason', 'dsem_status 503 late=504;',
        'invalid parameter "late=504" in "dsem_status" directive'],
    ['status of a wrong reason', 'dsem_status 503 timeout=399;',
        'invalid value "399" of "timeout" parameter in "dsem_status" directive, it must be between 400 and 599'],
    ['status of a reason twice', 'dsem_status 503 error=500 error=502;',
        'duplicate parameter "error" in "dsem_status" directive'],
    ['status of an empty reason', 'dsem_status 503 full=;',
        '"full" parameter in "dsem_status" directive has no value'],
    ['status twice', 'dsem_status 503; dsem_status 503;',
        '"dsem_status" directive is duplicate'],

    (map {
        my ($name, $value) = @$_;
        ["$name of an unknown word", "$name maybe;",
            qq(invalid value "maybe" in "$name" directive)],
        ["$name empty", qq($name "";),
            qq(invalid value "" in "$name" directive)],
        ["$name twice", "$name $value; $name $value;",
            qq("$name" directive is duplicate)],
    } ['dsem_log_level', 'warn'], ['dsem_on_error', 'pass'],
        ['dsem_dry_run', 'on'], ['dsem_release', 'log'],
        ['dsem_wait_body', 'off']),

    (map {
        my ($what, $value, $must) = @$_;
        ["retry after $what", qq(dsem_retry_after "$value";),
            qq(invalid value "$value" in "dsem_retry_after" directive, )
            . qq(it must be $must)]
    } ['a word', 'soon', 'a time'], ['nothing', '', 'a time'],
        ['no time', '0', 'between 1000ms and 2147483647ms'],
        ['a variable', '$arg_t', 'without variables']),
    ['reuse a word', 'dsem_reuse long;',
        'invalid value "long" in "dsem_reuse" directive, it must be a time'],
    ['reuse too long', 'dsem_reuse 61s;',
        'invalid value "61s" in "dsem_reuse" directive, it must be between 1ms and 60000ms'],
    ['reuse twice', 'dsem_reuse off; dsem_reuse off;',
        '"dsem_reuse" directive is duplicate'],
    ['hold warn a word', 'dsem_hold_warn long;',
        'invalid value "long" in "dsem_hold_warn" directive, it must be a time or "off"'],
    ['hold warn nothing', 'dsem_hold_warn 0;',
        'invalid value "0" in "dsem_hold_warn" directive, it must be between 1ms and 2147483647ms'],
    ['hold warn twice', 'dsem_hold_warn 1m; dsem_hold_warn off;',
        '"dsem_hold_warn" directive is duplicate'],
    ['retry after twice', 'dsem_retry_after 1; dsem_retry_after off;',
        '"dsem_retry_after" directive is duplicate'],

    (map {
        my $name = $_;
        (map {
            my ($what, $value) = @$_;
            ["$name $what", qq($name "$value";),
                qr/invalid value ".*" in "$name" directive, it must be 1 to 64/]
        } ['empty', ''], ['with a brace', 'a{0}'], ['with a blank', 'a b'],
            ['with a variable', 'a$host'], ['with a slash', 'a/b'],
            ['with a byte above 127', "caf\xc3\xa9"],
            ['too long', 'n' x 65]),
        ["$name twice", "$name a; $name a;",
            qq("$name" directive is duplicate)],
    } qw(dsem_prefix dsem_node)),
    ['node with a colon', 'dsem_node a:1;',
        'invalid value "a:1" in "dsem_node" directive, it must be 1 to 64'],

    # hostile words

    ['name with a line feed', qq(dsem "a\n[emerg] forged" limit=1 x;),
        'invalid parameter "x" in "dsem" directive'],
    ['limits of a name with CR and LF',
        qq(dsem "a\r\nforged" limit=1; dsem "a\r\nforged" limit=2;),
        qr/semaphore "a\\x0D\\x0Aforged" has "limit=1"/],
    ['limits of a name with NUL',
        qq(dsem "a\0b" limit=1; dsem "a\0b" limit=2;),
        qr/semaphore "a\\x00b" has "limit=1"/],
    ['limits of a name with braces',
        'dsem "{0}:s:{}" limit=1; dsem "{0}:s:{}" limit=2;',
        qr/semaphore "\{0\}:s:\{\}" has "limit=1"/],
    ['orders in a ring', 'dsem a limit=1; dsem b limit=1; '
        . sprintf($server, 'dsem b limit=1; dsem c limit=1; dsem d limit=1;')
        . sprintf($server, 'dsem d limit=1; dsem a limit=1;'),
        qr/"d" before "a" makes a cycle: "a" is taken before "b" in \S+:\d+, and "b" before "d" by other lines/],
    ['orders of names with NUL',
        qq(dsem "a\0b" limit=1; dsem "a\0c" limit=1; )
        . sprintf($server, qq(dsem "a\0c" limit=1; dsem "a\0b" limit=1;)),
        qr/semaphore "a\\x00b" is taken before "a\\x00c"/],
    ['limits of a name of 3000 bytes',
        'dsem "' . 'n' x 3000 . '" limit=1; '
        . 'dsem "' . 'n' x 3000 . '" limit=2;',
        qr/semaphore "n{128}\.\.\." has "limit=1" in \S+:\d+, but "limit=2"/],
    ['name of 8 KB', 'dsem "' . 'n' x 8192 . '" limit=1;',
        'too long parameter'],
    ['limit of 3000 digits', 'dsem a limit=' . '9' x 3000 . ';',
        qr/invalid value "9{128}\.\.\." of "limit" parameter in "dsem" directive, $limits/],
    ['limit with a line feed', qq(dsem a "limit=1\nforged";),
        'invalid value "1\x0Aforged" of "limit" parameter in "dsem" directive'],
    ['parameter with a line feed', qq(dsem a limit=1 "b\r\nforged";),
        'invalid parameter "b\x0D\x0Aforged" in "dsem" directive'],
    ['parameter of off with a line feed', qq(dsem off "b\nforged";),
        'invalid parameter "b\x0Aforged" in "dsem off"'],
    ['parameter with an escape', qq(dsem a limit=1 "\e[2J";),
        'invalid parameter "\x1B[2J" in "dsem" directive'],
    ['address with a line feed', qq(dsem_redis "127.0.0.1:1\nforged";),
        'invalid port in address "127.0.0.1:1\x0Aforged" of "dsem_redis" directive'],
    ['prefix with a line feed', qq(dsem_prefix "a\nforged";),
        'invalid value "a\x0Aforged" in "dsem_prefix" directive'],
    ['flag with a line feed', qq(dsem_dry_run "on\nforged";),
        'invalid value "on\x0Aforged" in "dsem_dry_run" directive'],
    ['flag with NUL', qq(dsem_dry_run "on\0";),
        'invalid value "on\x00" in "dsem_dry_run" directive'],
    ['name with an open brace', 'dsem {a limit=1;',
        'directive "dsem" is not terminated by ";"'],
);

# directives in a wrong context

my @misplaced = (
    (map { ["$_ in server", "server { $_ 1; }", $_],
           ["$_ in location", "server { location / { $_ 1; } }", $_] }
        qw(dsem_redis dsem_redis_connect_timeout dsem_redis_timeout
           dsem_lease dsem_max_waiting dsem_prefix dsem_node)),
    (map { ["$_ in if", "server { location / { if (\$arg_x) { $_ on; } } }",
                $_],
           ["$_ in limit_except",
                "server { location / { limit_except GET { $_ on; } } }", $_],
           $_ eq 'dsem' ? ()
               : ["$_ in upstream", "upstream u { $_ on; }", $_] }
        qw(dsem dsem_status dsem_log_level dsem_on_error dsem_dry_run
           dsem_release dsem_reuse dsem_wait_body
           dsem_retry_after dsem_hold_warn)),
);

push @wrong,
    map { [$_->[0], $_->[1], qq("$_->[2]" directive is not allowed here)] }
    @misplaced;

###############################################################################

my $t = Dsem::Test->new->plan(2 * @wrong);

for my $case (@wrong) {
    my ($title, $http, $sentence) = @$case;

    my ($status, $errors) = $t->test_conf(<<"EOF_CONF");
%%GLOBALS%%

events {
}

http {
    %%HTTP%%

    $http
}
EOF_CONF

    is($status, 1, "$title: refused");

    # one sentence, in one line, which ends with the place; unknown variables
    # are found later, by nginx itself

    my @lines = grep { /\[emerg\]/ } split(/\n/, $errors);
    my $found = ref $sentence ? $errors =~ $sentence
        : index($errors, $sentence) >= 0;
    my $placed = $errors =~ / in \S+:\d+$/m || $errors =~ /unknown "\w+" var/;

    ok($found && $placed && @lines == 1
       && $errors !~ /^(?:\[emerg\] )?forged/m, "$title: sentence printed")
        or diag($errors);
}

###############################################################################
