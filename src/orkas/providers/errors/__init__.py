"""What a vendor's refusal means, how long to wait and which window it tells."""

from orkas.providers.errors.table import classify, mask, page_text

__all__ = ["classify", "mask", "page_text"]
