"""Deep-learning model selection inside PostgreSQL and Greenplum by Model Hopper Parallelism."""

__version__ = "0.1.0"
