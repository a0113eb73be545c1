"""The command `anchorfl`: one file per group of commands."""
