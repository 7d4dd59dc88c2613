"""Wrong answers that every exercise must refuse, in the words of its `must_fail`."""

FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"
