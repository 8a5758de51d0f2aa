"""One self-contained HTML page per run; page, charts and tables serve other pages as well."""

from residapt.report.run_page import write_report

__all__ = ["write_report"]
