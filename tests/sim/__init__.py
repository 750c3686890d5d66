"""The simulator: workers, clients and a disk, one step at a time, from one seed."""
