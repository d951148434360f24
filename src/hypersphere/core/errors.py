"""Errors that are told to the user in a sentence."""


class Failure(RuntimeError):
    """Work that was begun and cannot go on; the message says why, a traceback would add nothing."""
