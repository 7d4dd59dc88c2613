"""Wrong answers that every exercise must refuse, in the words of its `must_fail`."""

FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"
READS = "reads the expected value out of the checker (module globals, frames or closure)"
CHANGES = "returns the right value but changes one of its inputs"
CATCHES = "catches every exception and returns a default"
TOO_SLOW = (
    "is right on small cases and exceeds the size limit on large ones (quadratic, recursive or "
    "waiting for ever)"
)
