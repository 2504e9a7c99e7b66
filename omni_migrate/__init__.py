"""omni-migrate: move vLLM-Omni's model runners onto adapters and vLLM's V2 runner.

This module stays empty of imports: `omni-migrate --help` must not pay for libcst, rich or git.
"""

__version__ = "0.1.0"
