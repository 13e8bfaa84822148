"""Reports from the audit: who decided what in a time, on which evidence, and what proves that nothing is missing.

In: audit entries that the reader may see, a period, a kind of report. Out: decisions with their evidence, counts, the
seals that hold them; as a page, as HTML that stands alone, and as CSV. Called by ``audit report`` and URLs.
"""
