"""The topics of `ys help`: short pages that no single command's page could hold."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.render import safe

_PARAMS = """\
ys trigger charge-order --id order-42 -p order=42
ys send order-42 cancel reason='no longer wanted' fee:=5

How values are given to ys trigger, ys send and ys store.

  -p name=text      the text takes the type that the workflow declares: 42 is an
                    int where an int is declared and a str where a str is
  -p name:=JSON     JSON, never converted: -p tags:='["a", "b"]'
  -p name=@file     the text of a file; name:=@file its JSON
  -p a.b=text       a field of a nested object
  --params JSON     a whole object; --params @file and --params - (stdin) keep
                    values out of the list of processes; -p wins over it
  --context k=v     data carried along for the workflow to read; text is text

bool is true or false; an Optional takes null; dates, Decimal, UUID and Enum are
read from their usual text. A list takes JSON, or the option repeated. Unknown
names, and a value given twice, are refused (exit 5). JSON is strict: no NaN, no
key twice.

ys send takes its fields without -p and knows no declared type: text is text,
so write fee:=5 and ok:=true. --data takes the whole value, of any kind: JSON,
@file or - (stdin); fields win over those of its object.

ys store set and ys store patch take fields as ys send does, and --data an
object; text takes the type that a module declares for stores of that name.
"""

_TIMES = """\
ys trigger report --at 09:30
ys wake order-42 --at +10m

Spans: 250ms, 10s, 10m, 1h30m, 3d. A bare number is refused.

Moments:
  +10m                        from now
  09:30, 09:30:15             the next time it is that on the wall clock (TZ)
  2026-12-01T09:30            a local time
  2026-12-01T09:30Z, …+02:00  with an offset

A local time that the change to summer time skips, or that comes twice at its
end, is refused; the message shows how to write the one you mean. What is stored
is the instant, so that a change of TZ does not move it.

Output: relative and local for people (--times relative|local|utc), RFC 3339 in
UTC with milliseconds in a pipe and with --json.
"""

_VALUES = """\
ys show order-42 --json
ys show order-42 --result | python3 -m json.tool

Params, context, results and states of stores are stored as JSON and come back
exactly as they were. What JSON has no word for is stored tagged, and --json
shows it so:

  ["$ys","tuple",1,2]                     tuple; set and frozenset likewise
  ["$ys","bytes","aGk="]                  bytes, in base64
  ["$ys","datetime","2026-11-30T16:00:00+00:00"]   date and time likewise
  ["$ys","timedelta",0,300,0]             days, seconds, microseconds
  ["$ys","decimal","1.10"]                Decimal; UUID and Path likewise
  ["$ys","int","0x10000000000000000"]     an int beyond 64 bits, in hex
  ["$ys","float","nan"]                   a float that is not finite
  ["$ys","list","$ys",1]                  a list of yours that looks like a tag

A value takes 16 MiB at most: store large data beside and pass its path.

For people, ys show masks values whose key looks secret (password, token,
secret, authorization, api_key); --reveal shows them. Pipes and --json are
exact.
"""

_IDS = """\
ys show @last
ys list -q --failed | ys wait -

An execution ID is 1 to 255 bytes of printable UTF-8 without a space at either
end, compared byte for byte, and unique for ever.

  @last        the execution admitted last to this database
  -            IDs from stdin, one a line (wait, send, cancel, pause …)
  --id=ID      this ID, literally: --id=@last, --id=-

Where you look at something on a terminal (show, explain, messages) the first 4
or more characters of an ID are enough if no other begins with them. Nowhere
else.
"""

_FILES = """\
ys doctor
ys --db /srv/shop/ys.db list

The project is the nearest directory upwards with ys.toml, workflows/ or ys.db;
-C DIR starts the search elsewhere.

  database    --db, then YS_DB, then ys.toml, then ys.db of the project
  workflows   --workflows, then YS_WORKFLOWS, then ys.toml, then workflows/

Keys of ys.toml: db, workflows, durability, max_value, residents, jobs, lease,
grace, message_ttl. Paths are relative to the file. durability is "full" unless
it is set to "normal", which gives up the last commits before a power cut, not
before a crash of a process.

Other variables: YS_COLOR, YS_ASCII, NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE,
COLUMNS, TZ. Files that others may write are refused unless --trust-dir names
their directory.
"""

_EFFECTS = """\
ys show order-42
ys doctor

An effect (step.effect) is something that the world outside is to do once: a
charge, a booking. Its ID stands for one operation with one input, in all
executions. It is tried by one at a time, and after any doubt it is looked up
before it is done again.

What ys show says below one:
  in doubt, looks again in 8 s           a try or a look-up came to nothing; it
                                         is looked up until somebody knows
  another execution tries it (order-41)  ys explain follows that one
  settled by order-41                    that one did it; this has its result

What did not agree stands below the steps, and ys doctor warns of it:
  asked for …; this ID is …              a mismatch: another operation or input
                                         is refused (EffectMismatch)
  brought another result                 a conflict, or late: the first result
                                         stands; look at the service

There is nothing to mend here: effects are kept for ever, and no command changes
one. INVALID_EFFECT_ANSWER: a look-up gave none of its three answers (settled,
not_found, unknown), or a result cannot be stored; put the module right.
"""


def _exit_codes() -> str:
    lines = ["ys wait order-42; echo $?", "ys help exit-codes", "", "Exit statuses:", ""]
    for code, meaning in exits.TABLE:
        lines += safe.wrap(meaning, 80, " " * 7, first=f"  {code:>3}  ")
    return "\n".join(lines) + "\n"


#: Topic to text; every text begins with two examples.
TOPICS: Mapping[str, str] = MappingProxyType(
    {
        "exit-codes": _exit_codes(),
        "params": _PARAMS,
        "times": _TIMES,
        "values": _VALUES,
        "ids": _IDS,
        "files": _FILES,
        "effects": _EFFECTS,
    }
)

#: One line about each topic.
SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "exit-codes": "what each exit status means",
        "params": "how values are given to ys trigger, ys send, ys store",
        "times": "how spans and moments are written and shown",
        "values": "how params and results are stored and shown",
        "ids": "execution IDs, @last, prefixes, IDs from stdin",
        "files": "the project, the database, ys.toml, environment variables",
        "effects": "what the world outside does once: in doubt, settled, disputed",
    }
)
