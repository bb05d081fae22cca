"""The page's plots as files for papers and slides: vector text, safe for the colour-blind."""
