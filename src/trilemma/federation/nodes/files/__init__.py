"""What must outlive a process: a node's identity, diary and ledger, a server's checkpoint."""
