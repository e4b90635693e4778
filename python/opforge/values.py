"""Plain values that calls give back."""


class Unavailable:
    """This call cannot run here now; `reason` says why. False as a truth value.

    A returned value and not an exception: route the call elsewhere, or call value().
    """

    __slots__ = ("operator", "reason")
    __match_args__ = ("operator", "reason")

    def __init__(self, operator, reason):
        self.operator = operator
        self.reason = reason

    def __bool__(self):
        return False

    def __eq__(self, other):
        if not isinstance(other, Unavailable):
            return NotImplemented
        return (self.operator, self.reason) == (other.operator, other.reason)

    def __hash__(self):
        return hash((self.operator, self.reason))

    def __repr__(self):
        return f"Unavailable({self.operator!r}, {self.reason!r})"

    def value(self):
        """Raises errors.Unserved with the reason."""
        from .errors import Unserved

        raise Unserved(f"{self.operator} is unavailable here: {self.reason}", self.operator)


def explanation(json_text):
    """An Explanation from the JSON of the C interface."""
    from .records import Explanation

    return Explanation.from_json(json_text)
