"""The ``fedcomp`` command, one file a subcommand."""
