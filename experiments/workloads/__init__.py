"""What the experiments train: tables made through public names, and the same rows as tensors for the baselines.

`WORKLOADS[name]` is a `base.Workload`; `registry.find(name)` names the nearest one when there is none.
"""
