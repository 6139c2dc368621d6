"""Drawing of documents: Markdown becomes a PDF, a Word document, slides, a workbook, a page or a picture.

It runs in the jail with the packages of programs, never in the supervisor, because large libraries read text that
the model wrote. It has no network, and pictures come only from the turn's own folders. The first call of a
`rendering_tools.write_*` loads it.
"""
