"""`python -m berth` is the command line."""

from berth.cli.root import main

main()
