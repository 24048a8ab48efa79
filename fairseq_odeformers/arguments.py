"""Types of the options that command lines of several parts have."""


def positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value
