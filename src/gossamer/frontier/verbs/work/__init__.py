"""The verbs of workers and producers: pages are leased, settled and found."""
