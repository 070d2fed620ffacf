"""`nftop fleet`: files for Prometheus and Grafana, made from the catalogue and the rules."""

from __future__ import annotations

import argparse
import sys

from nftop.derive.findings.rules import all_rules
from nftop.export.fleet.alerts import alerts
from nftop.export.fleet.dashboard import dashboard
from nftop.export.output import OK, put


def fleet(options: argparse.Namespace) -> int:
    """Print a dashboard of Grafana, or the alerting rules of Prometheus."""
    if options.output == "dashboard":
        text = dashboard(options.job)
    else:
        text = alerts(all_rules(), options.job)
    put(sys.stdout, text)
    return OK
