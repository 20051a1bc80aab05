"""One self-contained HTML page of a report: it needs no network, no server and no other file."""

from __future__ import annotations

from gpbench.report.page.document import page, plan_page, write_page
from gpbench.report.page.parts import Part, Picture, pictures_of

__all__ = ["Part", "Picture", "page", "pictures_of", "plan_page", "write_page"]
