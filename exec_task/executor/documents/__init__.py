"""The drawing of documents: Markdown becomes a PDF, a Word document, slides, a workbook, a page or a picture.

It runs in the jail with the packages of programs, never beside the supervisor: large libraries read text that
the model wrote. No network is there, and pictures come from the turn's own folders only. It is loaded by the
first call of a `rendering_tools.write_*`.
"""
