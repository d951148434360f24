"""`python -m hypersphere`, and with it `torchrun ... -m hypersphere`."""

import sys

from hypersphere.cli import main

sys.exit(main())
