"""From a page to records and links, by the rules of its layer."""
