"""`report.html`: one file that explains a result and fetches nothing.

Python prepares what is shown, the templates lay it out, the scripts draw and let one explore.
"""
