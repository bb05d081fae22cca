"""What carries an update: plain messages, Paillier, secret sharing; one file or folder each."""
