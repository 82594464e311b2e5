"""The ops. Each is an ordinary Function; `table.py` binds them."""
