"""The spec as typed values: what an operator may write."""
