"""The one exception that means: the user asked for something that cannot be done."""


class UserError(Exception):
    """A mistake in what was asked for, stated in one line; the command ends with exit code 2."""


def in_one_line(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
