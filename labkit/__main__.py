"""`python -m labkit`: the same as the command `labkit`."""

from labkit.cli import main

raise SystemExit(main())
