"""What a user can be told: one line that says what to do, and the exit code of the documented table."""

EXIT_DONE = 0
EXIT_CHECK_FAILED = 1
EXIT_INPUT = 2
EXIT_VERIFICATION = 3


class OmniMigrateError(Exception):
    """An error whose text is one line for the user; the CLI prints it and exits with `exit_code`."""

    exit_code = EXIT_INPUT


class InputError(OmniMigrateError):
    """Usage or input: no such path, not vllm-omni, dirty tree, no network, disk full. Exit code 2."""


class VerificationError(OmniMigrateError):
    """The tool's own verification failed and nothing was written. Exit code 3."""

    exit_code = EXIT_VERIFICATION
