"""Storage: the contract (`contract.py`) and its adapters, one folder each."""
