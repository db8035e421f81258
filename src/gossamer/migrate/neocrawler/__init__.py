"""NEOCrawler's rules as site files."""
