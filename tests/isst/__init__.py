"""An intel-speed-select of the tests', for hosts that have none."""
