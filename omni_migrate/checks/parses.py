"""check-parses: every changed Python file compiles."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable

from omni_migrate.report.findings import FileChange, Finding, Severity

RULE = "check-parses"
# The oldest Python that vLLM-Omni's releases run on; newer syntax in a file is fine if it was there before.
OLDEST = (3, 10)


def parses(changes: Iterable[FileChange]) -> list[Finding]:
    """One finding for each changed .py file whose new bytes, BOM and coding line included, do not compile."""
    findings = []
    for change in changes:
        if change.path.endswith(".py") and change.before != change.after:
            error = _error(change.after)
            if error is None and (change.before is None or not _needs_newer(change.before)):
                error = _needs_newer(change.after)
            if error is not None:
                message = f"does not compile after the change: {error.msg}"
                findings.append(Finding(change.path, error.lineno or 0, RULE, Severity.ERROR, "", message))
    return findings


def _error(data: bytes) -> SyntaxError | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(data, "<change>", "exec", dont_inherit=True)
        except SyntaxError as error:
            return error
        except (ValueError, RecursionError, MemoryError) as error:  # a null byte; nested too deep
            return SyntaxError(str(error))
    return None


def _needs_newer(data: bytes) -> SyntaxError | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data, feature_version=OLDEST)
        except SyntaxError as error:
            return error
    return None
