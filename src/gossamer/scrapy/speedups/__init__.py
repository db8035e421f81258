"""What makes a page cheaper in Scrapy, and changes nothing else."""
