"""Projects written for other tools: what they use, and what becomes of it here. Text in, findings out."""
