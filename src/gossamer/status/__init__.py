"""The read model for people: what a crawl does now. The command line, the exporter and the console show it.

Plain names cost O(lanes + groups + workers) whatever is queued, and may be asked every second. Names that begin with `scan_` page
through what grows with the crawl; they are iterators, so that whoever reads decides how far.
"""
