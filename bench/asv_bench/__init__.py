"""What asv tracks of the nights.

asv imports this folder by its last name, as a package `asv_bench` of its own, which is why it is not called asv.
"""
