"""Protections with one free strength: how they are made for a federation, tried and priced."""
