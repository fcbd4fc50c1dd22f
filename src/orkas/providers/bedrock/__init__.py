"""Amazon Bedrock Converse."""

from orkas.providers.bedrock.reader import Bedrock

__all__ = ["Bedrock"]
