"""Wingspan: the same declared fine-tuning work, measured on every machine and every stack."""
