"""`python -m benchmarks`. BLAS reads its variables once, when NumPy is first imported."""

import os
import sys

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
# A kernel chosen by hand, for some other purpose, can be several times slower than its own choice.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)
# PyTorch's profiler would report each start and stop.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

if __name__ == "__main__":
    from benchmarks.command import main

    sys.exit(main())
