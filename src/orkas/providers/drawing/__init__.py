"""Models that draw, as dialects: the reply to a request is a message with pictures in it.

Nobody chats with them. What is sent is the last message of the user: its text, and pictures to go by. Prices of
tokens are not those of pictures, so that these replies carry no usage: what a picture costs is for the user to say.
"""

from orkas.providers.drawing.google import GoogleImages
from orkas.providers.drawing.openai import OpenAIImages
from orkas.providers.drawing.shared import SHAPES, Shape, address_of

__all__ = ["SHAPES", "GoogleImages", "OpenAIImages", "Shape", "address_of"]
