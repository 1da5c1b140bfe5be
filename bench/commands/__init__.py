"""The commands of the command line, one file each.

In: arguments, through click. Out: an exit code (see `exits`); with `--json` one JSON document on standard output and nothing
else. Messages and progress go to standard error.

To add a command `name`, write `bench/commands/name.py` with a click command `name` in it, and add its row to `COMMANDS` in
`bench.cli`. A command's file imports click, `options` (what several commands take), `exits` (`with bad_input():` makes one
message of what the user can mend; `raise Regressed` leaves with 1) and `bench.quantities`; everything else inside the command, so
that help and completion stay quick. It reads its arguments, calls the package, tells what came of it, and holds nothing worth
testing without a command line: that belongs below. Its docstring is its help, so it says what a user wants to know.
"""
