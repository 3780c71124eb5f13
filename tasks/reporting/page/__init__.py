"""`report.html`: a page that holds the results of an evaluation and opens anywhere.

It needs no network and no other file. Steps from numbers to the page: `details` measures what the
report lacks, `grids`, `drawing` and `parts` turn records into texts and coordinates, `rendering`
fills the template, in which nothing is computed.
"""
