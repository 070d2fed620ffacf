"""Where frames come from: this host, live. One `Feed` protocol for every origin."""
