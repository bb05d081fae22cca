"""A pack of evidence for those who judge a verdict: statement, page, manifest, signature."""
