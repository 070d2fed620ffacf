"""`make bench`: what nftop costs, as counts and ratios. No number here is a test."""
