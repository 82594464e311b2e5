"""`python -m lucid_mini` is `lucid-mini`."""

import sys

from .cli import main

sys.exit(main())
