"""Setup of the host for polling cores, compared with papers, for `nftop doctor`. Read only."""
