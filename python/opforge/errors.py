"""What calls raise: one class for each kind of failure.

Every exception has `status` (the stable name of the kind, as in the C interface), `operator`
(None where no operator is involved) and `message`. An outcome that is no error, "this call cannot
run here now", is the value opforge.Unavailable and not an exception.
"""


class Error(Exception):
    """A failure in opforge. `status` is its kind, `operator` the operator's name or None."""

    status = "internal"

    def __init__(self, message, operator=None, explanation=None):
        super().__init__(message)
        self.message = message
        self.operator = operator
        self._explanation = explanation

    @property
    def explanation(self):
        """Why each candidate did not serve the call (opforge.values.Explanation), or None."""
        if not self._explanation:
            return None
        from .values import explanation

        return explanation(self._explanation)


class InvalidArgument(Error, ValueError):
    """The call is wrong: shape, dtype, device, name, an object that is no tensor.

    `argument`, `expected`, `actual` and `advice` are texts where one argument is to blame, else
    None.
    """

    status = "invalid_argument"
    argument = expected = actual = advice = None


class InvalidDeclaration(Error):
    """An operator is declared wrongly."""

    status = "invalid_declaration"


class NotFound(Error, LookupError):
    """An operator, backend, file or key does not exist; the message offers the nearest names."""

    status = "not_found"


class ContractUnsatisfied(Error):
    """No kernel is strict enough for the contract; `explanation` says what each one offers."""

    status = "contract_unsatisfied"

    @property
    def asked(self):
        """The contract that was asked for, or None."""
        return self.explanation.asked if self.explanation else None

    @property
    def offered(self):
        """The tiers of the candidates, sorted."""
        if self.explanation is None:
            return ()
        return tuple(sorted({candidate.tier for candidate in self.explanation.candidates}))


class CompilationSealed(Error):
    """Serving the call would compile, and the process is sealed. `misses` lists all such calls."""

    status = "compilation_sealed"

    @property
    def misses(self):
        """What would have needed a compile since the process was sealed: texts."""
        from .runtime import sealed_misses

        return sealed_misses()


class BackendNotEligible(Error):
    """The backend that the call names cannot serve it; `explanation` has the reasons."""

    status = "backend_not_eligible"


class Corrupt(Error):
    """Stored bytes fail their digest, are cut short or malformed."""

    status = "corrupt"


class Untrusted(Error):
    """A pack's signature is missing, wrong, or of a key that is not trusted here."""

    status = "untrusted"


class Incompatible(Error):
    """Made for another architecture, driver, schema or toolkit; the message names both sides."""

    status = "incompatible"


class IoError(Error, OSError):
    """The operating system refused; the message has the path and the reason."""

    status = "io"


class ToolchainError(Error):
    """A compiler is missing or failed."""

    status = "toolchain"


class DriverError(Error):
    """A call of a device's driver failed."""

    status = "driver"


class OutOfMemory(Error, MemoryError):
    """Memory of the host or of a device ran out."""

    status = "out_of_memory"


class Timeout(Error, TimeoutError):
    """A limit of time was reached."""

    status = "timeout"


class Cancelled(Error):
    """Interrupted by the user."""

    status = "cancelled"


class Unserved(Error):
    """Raised by Unavailable.value() alone: the caller wanted a result or an exception."""

    status = "unavailable"


class PlanClosed(Error):
    """A plan was called after close() or after its `with` block."""

    status = "plan_closed"


_BY_STATUS = {
    kind.status: kind
    for kind in (
        InvalidArgument,
        InvalidDeclaration,
        NotFound,
        ContractUnsatisfied,
        CompilationSealed,
        BackendNotEligible,
        Corrupt,
        Untrusted,
        Incompatible,
        IoError,
        ToolchainError,
        DriverError,
        OutOfMemory,
        Timeout,
        Cancelled,
        Unserved,
    )
}


def from_status(status, message, operator="", explanation=""):
    """The exception for a status of the C interface. Used by the extension modules."""
    return _BY_STATUS.get(status, Error)(message, operator or None, explanation or None)


def wrong_argument(operator, argument, expected, actual, advice=""):
    """The exception for one wrong argument of a call. Used by the extension modules."""
    message = f"{operator}: {argument}: expected {expected}, got {actual}"
    if advice:
        message += f"; {advice}"
    error = InvalidArgument(message, operator)
    error.argument, error.expected = argument, expected
    error.actual, error.advice = actual, advice or None
    return error


def plan_closed(operator):
    """The exception for a call of a closed plan. Used by the extension modules."""
    return PlanClosed(f"{operator}: the plan is closed; prepare another", operator)
