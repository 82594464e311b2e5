"""`python -m benchmarks`. The number of BLAS threads is read once, when NumPy is first imported."""

import os
import sys

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

if __name__ == "__main__":
    from benchmarks.command import main

    sys.exit(main())
