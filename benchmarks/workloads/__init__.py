"""The workloads: each module measures one thing once and answers its figures."""
