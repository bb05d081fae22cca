"""How much protection do federated updates need, which kind, and what will it cost?"""
