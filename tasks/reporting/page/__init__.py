"""`report.html`: a page with the results of an evaluation, which opens anywhere.

It needs neither a network nor other files. `details` measures the numbers that the report lacks.
`grids`, `drawing` and `parts` turn records into texts and coordinates. `writing` fills the
templates, which compute no values.
"""
