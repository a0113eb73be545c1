"""The one exception that means: the user asked for something that cannot be done."""


class UserError(Exception):
    """A mistake in what was asked for, stated in one line; the command ends with exit code 2."""
