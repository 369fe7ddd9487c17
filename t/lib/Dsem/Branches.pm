package Dsem::Branches;

# The branches of Lua sources, and the same sources with a count of each.
#
#   my $branches = Dsem::Branches->new;
#   my $text = $branches->count($file, $source, $main);
#   $branches->all;     # [{ id, file, line, what, text } ...]
#
# A branch: a function that is called; an arm of an "if", the "else" that is
# not written too; a loop with a round, and one without; each side of "and" and
# "or": the left one decides, or the right one is evaluated.
#
# The text has the lines of the source, with calls of the functions of HEAD.
# The text of a script ($main: the file is no include) begins with them, and
# logs the numbers of its branches once per run, in the log of Redis: a script
# has no variables that outlive a run, and a key would be found in teardown.
#
# Parses Lua 5.1, each method a rule of its grammar, which returns the new text.
# Dies where the source is no Lua.
#
# Called by: t/house/branches.

use strict;
use warnings;

my $HEAD = join ' ', split /\n */, <<'EOF_LUA';
local counted_, branch_ = {}, {}
function branch_.at(id) counted_[id] = true return true end
function branch_.no(id, v) if not v then counted_[id] = true end return v end
function branch_.yes(id, v) if v then counted_[id] = true end return v end
local function counted_main_()
EOF_LUA

my $TAIL = join ' ', split /\n */, <<'EOF_LUA';
end
local ok_, reply_, list_ = pcall(counted_main_)
list_ = {}
for id_ in pairs(counted_) do list_[#list_ + 1] = id_ end
redis.log(redis.LOG_WARNING, 'branches ' .. table.concat(list_, ' '))
if not ok_ then error(reply_, 0) end
return reply_
EOF_LUA

my %KEYWORD = map { $_ => 1 } qw(and break do else elseif end false for function
    if in local nil not or repeat return then true until while);
# priority of an operator for what is left and right of it
my %BINARY = (
    or => [ 1, 1 ], and => [ 2, 2 ],
    map({ $_ => [ 3, 3 ] } qw(< > <= >= ~= ==)), '..' => [ 5, 4 ],
    map({ $_ => [ 6, 6 ] } qw(+ -)), map({ $_ => [ 7, 7 ] } qw(* / %)),
    '^' => [ 10, 9 ],
);
my %UNARY = (not => 1, '-' => 1, '#' => 1);
my $UNARY_PRIORITY = 8;

sub new { return bless { all => [] }, shift }
sub all { $_[0]{all} }

sub count {
    my ($self, $file, $source, $main) = @_;
    @$self{qw(file token at)} = ($file, tokens($file, $source), 0);
    my $text = $self->block;
    $self->fail if $self->peek ne '';
    $text .= $self->next;
    return $main ? "$HEAD\n$text\n$TAIL\n" : $text;
}

# [blanks and comments before it, its text, its line] of each token; the last
# one is empty.
sub tokens {
    my ($file, $source) = @_;
    my ($line, @list) = (1);
    for ($source) {
        while (1) {
            my ($space) = /\G((?:\s+|--\[(=*)\[.*?\]\2\]|--[^\n]*)*)/gcs;
            $line += $space =~ tr/\n//;
            my $token = /\G([A-Za-z_]\w*)/gc ? $1
                : /\G((?:0[xX]\w+|\.?\d(?:[eE][-+]?|[\w.])*))/gc ? $1
                : /\G("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')/gcs ? $1
                : /\G(\[(=*)\[.*?\]\2\])/gcs ? $1
                : /\G(\.\.\.|\.\.|[=~<>]=|[-+*\/%^#=<>(){}\[\];:,.])/gc ? $1
                : '';
            push @list, [ $space, $token, $line ];
            last if $token eq '';
            $line += $token =~ tr/\n//;
        }
        die "$file:$line: no Lua\n" if (pos // 0) < length;
    }
    return \@list;
}

sub fail {
    my ($self) = @_;
    my $token = $self->{token}[ $self->{at} ];
    die "$self->{file}:$token->[2]: '$token->[1]' is not expected here\n";
}

sub peek { $_[0]{token}[ $_[0]{at} ][1] }

# The next token with the blanks before it. Dies if it is another one.
sub next {
    my ($self, $want) = @_;
    $self->fail if defined $want && $self->peek ne $want;
    return join '', @{ $self->{token}[ $self->{at}++ ] }[ 0, 1 ];
}

sub name {
    my ($self) = @_;
    $self->fail if $KEYWORD{ $self->peek } || $self->peek !~ /^[A-Za-z_]/;
    return $self->next;
}

# A new branch that begins at a token. Returns its number.
sub branch {
    my ($self, $what, $first, $last) = @_;
    my @token = @{ $self->{token} }[ $first .. ($last // $self->{at}) - 1 ];
    my ($text) = join('', map { ($_->[0] ? ' ' : '') . $_->[1] } @token)
        =~ /^ *(.*)/;
    push @{ $self->{all} }, {
        id => scalar @{ $self->{all} }, file => $self->{file},
        line => $token[0][2], what => $what, text => $text,
    };
    return $#{ $self->{all} };
}

sub at { return " branch_.at($_[1]);" }


# statements

# With the comments at its end, which may be includes.
sub block {
    my ($self) = @_;
    my $text = '';
    while ($self->peek !~ /^(?:end|else|elseif|until|)$/) {
        my $last = $self->peek =~ /^(?:return|break)$/;
        $text .= $self->statement;
        $text .= $self->next if $self->peek eq ';';
        last if $last;
    }
    my $end = $self->{token}[ $self->{at} ];
    $text .= $end->[0];
    $end->[0] = '';
    return $text;
}

sub statement {
    my ($self) = @_;
    my %rule = (
        if => 'if_arms', while => 'loop', for => 'loop', repeat => 'repeat',
        do => 'do_block', function => 'function_named', local => 'local_names',
        return => 'return_list', break => 'next',
    );
    my $rule = $rule{ $self->peek };
    return $self->$rule if $rule;

    my $text = $self->primary;
    while ($self->peek eq ',') { $text .= $self->next . $self->primary }
    $text .= $self->next . $self->expressions if $self->peek eq '=';
    return $text;
}

sub do_block {
    my ($self) = @_;
    return $self->next('do') . $self->block . $self->next('end');
}

sub if_arms {
    my ($self) = @_;
    my ($text, @arm) = ('');
    while ($self->peek =~ /^(?:if|elseif)$/) {
        my $first = $self->{at};
        $text .= $self->next . $self->expression . $self->next('then');
        @arm = ($first, $self->{at});
        $text .= $self->at($self->branch('taken', @arm)) . $self->block;
    }
    my $else = $self->at($self->branch('else', @arm));
    $text .= $self->peek eq 'else'
        ? $self->next . $else . $self->block : " else$else";
    return $text . $self->next('end');
}

# A variable tells whether there was a round.
sub loop {
    my ($self) = @_;
    my $first = $self->{at};
    my ($space, $word) = @{ $self->{token}[ $self->{at}++ ] };
    my $text = $word;
    if ($word eq 'while') {
        $text .= $self->expression;
    } else {
        $text .= $self->name;
        $text .= $self->next . $self->name while $self->peek eq ',';
        $text .= $self->next($self->peek eq 'in' ? 'in' : '=')
            . $self->expressions;
    }
    my $end = $self->{at};
    my $some = $self->branch('rounds', $first, $end);
    my $none = $self->branch('no round', $first, $end);
    $text .= $self->next('do') . " round_$some ="
        . $self->at($some) . $self->block . $self->next('end');
    return "${space}do local round_$some $text if not round_$some then"
        . $self->at($none) . ' end end';
}

sub repeat {
    my ($self) = @_;
    my $text = $self->next . $self->block . $self->next('until');
    my $first = $self->{at};
    my $condition = $self->expression;
    my $again = $self->branch('again', $first);
    return "$text branch_.no($again,$condition)";
}

sub function_named {
    my ($self) = @_;
    my $first = $self->{at};
    my $text = $self->next . $self->name;
    $text .= $self->next . $self->name while $self->peek =~ /^[.:]$/;
    return $text . $self->function_body($first);
}

# The rest of a function that begins at a token.
sub function_body {
    my ($self, $first) = @_;
    my $text = $self->next('(');
    $text .= $self->next while $self->peek =~ /^(?:,|\.\.\.|[A-Za-z_]\w*)$/;
    $text .= $self->next(')') . $self->at($self->branch('called', $first));
    return $text . $self->block . $self->next('end');
}

sub local_names {
    my ($self) = @_;
    my ($first, $text) = ($self->{at}, $self->next);
    return $text . $self->function_named($first) if $self->peek eq 'function';
    $text .= $self->name;
    $text .= $self->next . $self->name while $self->peek eq ',';
    $text .= $self->next . $self->expressions if $self->peek eq '=';
    return $text;
}

sub return_list {
    my ($self) = @_;
    my $text = $self->next;
    return $text if $self->peek =~ /^(?:end|else|elseif|until|;|)$/;
    return $text . $self->expressions;
}


# expressions

sub expressions {
    my ($self) = @_;
    my $text = $self->expression;
    $text .= $self->next . $self->expression while $self->peek eq ',';
    return $text;
}

# An expression whose operators have a priority above this one.
sub expression {
    my ($self, $limit) = @_;
    my $first = $self->{at};
    my $text = $UNARY{ $self->peek }
        ? $self->next . $self->expression($UNARY_PRIORITY) : $self->simple;
    while (my $binary = $BINARY{ $self->peek }) {
        last if $binary->[0] <= ($limit // 0);
        my $operator = $self->peek;
        my $word = $self->next;
        my $right = $self->expression($binary->[1]);
        if ($operator =~ /^(?:and|or)$/) {
            my $left = $self->branch('left decides', $first);
            my $both = $self->branch('right evaluated', $first);
            my $call = $operator eq 'and' ? 'no' : 'yes';
            $text = " branch_.$call($left,$text)";
            $right = " (branch_.at($both) and$right)";
        }
        $text .= $word . $right;
    }
    return $text;
}

sub simple {
    my ($self) = @_;
    my $first = $self->{at};
    for ($self->peek) {
        return $self->table if $_ eq '{';
        return $self->next . $self->function_body($first) if $_ eq 'function';
        return $self->next
            if /^(?:nil|true|false|\.\.\.)$/ || /^(?:["'\d]|\.\d|\[[\[=])/;
        return $self->primary;
    }
}

# A name, or an expression in parentheses, with what follows it.
sub primary {
    my ($self) = @_;
    my $text = $self->peek eq '('
        ? $self->next . $self->expression . $self->next(')') : $self->name;
    while (1) {
        for ($self->peek) {
            if ($_ eq '.') { $text .= $self->next . $self->name }
            elsif ($_ eq '[') {
                $text .= $self->next . $self->expression . $self->next(']');
            } elsif ($_ eq ':') {
                $text .= $self->next . $self->name . $self->arguments;
            } elsif (/^[({"']/ || /^\[[\[=]/) { $text .= $self->arguments }
            else { return $text }
        }
    }
}

sub arguments {
    my ($self) = @_;
    return $self->table if $self->peek eq '{';
    return $self->next if $self->peek ne '(';
    my $text = $self->next;
    $text .= $self->expressions if $self->peek ne ')';
    return $text . $self->next(')');
}

sub table {
    my ($self) = @_;
    my $text = $self->next('{');
    while ($self->peek ne '}') {
        if ($self->peek eq '[') {
            $text .= $self->next . $self->expression . $self->next(']')
                . $self->next('=');
        } elsif ($self->{token}[ $self->{at} + 1 ][1] eq '=') {
            $text .= $self->name . $self->next('=');
        }
        $text .= $self->expression;
        $text .= $self->next if $self->peek =~ /^[,;]$/;
    }
    return $text . $self->next('}');
}

1;
