"""`gossamer site`: site files and the tools of those who write them."""
