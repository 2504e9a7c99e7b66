"""The pages, as a fixture."""

from __future__ import annotations

import pytest
from markdown_pages import Page, pages


@pytest.fixture
def page() -> dict[str, Page]:
    """Every page by its name."""
    return {page.name: page for page in pages()}
