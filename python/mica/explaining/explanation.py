"""What `mica.explain` gives."""

from __future__ import annotations

from dataclasses import dataclass

from mica.explaining.report import Report
from mica.explaining.sections import PAGE, SECTIONS, section_of
from mica.explaining.summary import headline, summary


@dataclass(frozen=True)
class Explanation(Report):
    """What capture made of a callable.

    `str()` gives eleven lines at most; `details()` gives all,
    `details("guards")` one section of it: see SECTIONS. The attributes are
    those of Report.
    """

    def details(self, section: str | None = None) -> str:
        """All that is known, or one section of it.

        Args:
          section: One of SECTIONS; without it, all but "calls",
            "fusion", "plan" and "program".
        Returns:
          Lines of text; a section of which there is nothing says so.
        Raises:
          ValueError: There is no such section.
        """
        if section is None:
            chosen = [section_of(self, name) for name in PAGE]
            return "\n".join([headline(self), *filter(None, chosen)])
        if section not in SECTIONS:
            raise ValueError(
                f"mica.explain: no section {section!r}, there are "
                f"{', '.join(SECTIONS)}"
            )
        return section_of(self, section) or f"{section}: none"

    def __str__(self) -> str:
        return "\n".join([headline(self), *summary(self)])
