"""How people leave a command that runs: raised in the main thread, wherever it is."""


class Interrupted(BaseException):
    """A signal asked us to end; not an Exception, so that no handler of errors takes it."""

    def __init__(self, number: int) -> None:
        self.number = number


class Left(BaseException):
    """Somebody typed an escape; ``ends``: the command is to end too."""

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends
