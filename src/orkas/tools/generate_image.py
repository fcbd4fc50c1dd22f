"""Drawing a picture with a model of a vendor; it is saved in the working folder and shown."""

from __future__ import annotations

import base64
import os
import re
import unicodedata
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from orkas.harness.tool import ToolContext, ToolResult, check_arguments, schema_of
from orkas.infra.amounts import counted, usd
from orkas.infra.errors import OrkasError, ProviderError, ToolFailed, UsageError
from orkas.infra.known import hide
from orkas.infra.messages import AssistantMessage, Image, Text, UserMessage
from orkas.infra.paths import Folder, Place
from orkas.infra.pictures import MAX_BYTES, fault, media_type
from orkas.infra.threads import in_thread
from orkas.tools.beside import asked, may_cost
from orkas.tools.files import Draft, check_new_name, temporary_name

if TYPE_CHECKING:
    from orkas.infra.guard import Guard

__all__ = ["MAX_REFERENCES", "GenerateImage", "configured", "obstacle"]

MAX_REFERENCES = 4
_KINDS = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}
_NAME = 40
"""Characters of the prompt that a file is called after."""
_LONGEST_NAME = 200
"""Bytes. File systems take 255, of which a number and the name of the draft need some."""


class GenerateImageInput(msgspec.Struct, forbid_unknown_fields=True):
    prompt: Annotated[str, Meta(description="What the picture shows, in detail.")]
    shape: Annotated[
        Literal["", "square", "landscape", "portrait"], Meta(description="Omitted: the model decides.")
    ] = ""
    references: Annotated[
        list[str], Meta(description=f"Up to {MAX_REFERENCES} pictures of the working folder to go by or to change.")
    ] = []
    path: Annotated[
        str, Meta(description="Where to save it, without the ending. Omitted: named after the prompt.")
    ] = ""


def configured() -> GenerateImage | None:
    """The tool as the user has set it up; None where no model that draws is named, or there is no key for it."""
    from orkas.infra import config

    settings = config.load(tolerant=True)
    if not (model := settings["image.model"]) or obstacle(model):
        return None
    return GenerateImage(model, price=settings["image.price"] or None)


def obstacle(model: str) -> str:
    """Why this model cannot draw here, as a clause; empty: it can be asked."""
    from orkas.providers.registry import artist

    try:
        provider, _ = artist(model)
        return "" if provider.ready else f"there is {provider.no_key}"
    except OrkasError as error:
        return error.message


def _users_guard() -> Guard:
    from orkas.tools.web_fetch import users_guard

    return users_guard()


class GenerateImage:
    """The ``generate_image`` tool. ``price``: USD for one picture; None: not known. ``guard``: says where a picture
    that comes as an address may be fetched from."""

    name = "generate_image"
    description = (
        "Draw a picture, or change pictures of the working folder, from a description. It is saved in the working"
        " folder, never over another file, and shown to you."
    )
    parameters = schema_of(GenerateImageInput)
    network = True
    limit_s = 900.0

    def __init__(
        self, model: str, *, price: float | None = None, guard: Callable[[], Guard] = _users_guard
    ) -> None:
        self.model = model
        self.price = price
        self._guard = guard

    def touches(self, arguments: dict[str, Any], context: ToolContext) -> list[Path]:
        given = check_arguments(arguments, GenerateImageInput)
        place = Place(context.cwd, _stem(given) + ".png")
        try:
            with place.parent() as folder:
                names = set(folder.names())
        except ToolFailed:
            names = set()  # a folder of the path is still to be made
        stem = place.parts[-1].removesuffix(".png")
        return [place.real.with_name(_free(stem, ending, names)) for ending in _KINDS.values()]

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        given = check_arguments(arguments, GenerateImageInput)
        _check(given)
        references = await in_thread(_references, given.references, context)
        stem = _stem(given)
        _check_name(Place(context.cwd, stem + ".png"))  # what cannot be saved is told before it is paid for
        drawing = _Drawing(self.price, context)
        shown: list[Image] = []
        try:
            image, words = await self._drawn(given, references, context, drawing)
            data = await self._bytes(image, context)
            shown = _shown(data)
            name, image = await in_thread(_save, data, image, stem, context)
        except (OrkasError, OSError) as error:
            if not drawing.cost and not shown:
                raise
            return drawing.lost(str(error), shown)
        return self._told(name, image, data, words, drawing)

    async def _drawn(
        self, given: GenerateImageInput, references: list[Image], context: ToolContext, drawing: _Drawing
    ) -> tuple[Image, str]:
        """The picture, and what the model said with it."""
        from orkas.providers.base import CompletionParams
        from orkas.providers.registry import artist

        try:
            provider, model = artist(self.model, shape=given.shape)
        except UsageError as error:
            what = f"no picture can be drawn: {error.message}"
            raise ToolFailed(what, hint="the user has to set image.model") from None
        message = UserMessage([Text(text=given.prompt), *references])
        context.progress(f"asking {self.model}")
        try:
            params = CompletionParams(model=model, messages=[message])
            reply = await asked(lambda: drawing.attempt(provider.complete(params)), context.progress)
        except ProviderError as error:
            raise ToolFailed(f"no picture was drawn: {error.message}", hint=error.hint) from None
        finally:
            await provider.aclose()
        images = [block for block in reply.content if isinstance(block, Image)]
        return images[0], " ".join(block.text for block in reply.content if isinstance(block, Text)).strip()

    async def _bytes(self, image: Image, context: ToolContext) -> bytes:
        """The picture, fetched by the user's rules where only its address came."""
        from orkas.providers.drawing import address_of

        if image.data:
            return base64.b64decode(image.data)
        from orkas.tools.web.getting import get

        context.progress("fetching the picture")
        page = await get(address_of(image), self._guard())
        if page.status != 200 or page.partial or not page.body:
            raise ToolFailed(f"the picture was drawn and could not be fetched (HTTP {page.status})", hint="try again")
        return page.body

    def _told(self, name: str, image: Image, data: bytes, words: str, drawing: _Drawing) -> ToolResult:
        text = f"saved as {name} ({counted(len(data), 'byte')}, {image.media_type})"
        if words:
            text += f"\nThe model that drew it said: {words[:1_000]}"
        if self.price is None:
            text += "\nWhat it cost is not known here and not counted."
        wrong = fault(data)
        if wrong:
            text += f"\nIt is not shown to you: it {wrong}."
        return ToolResult(text, [] if wrong else [image], cost_usd=drawing.cost)


class _Drawing:
    """Attempts at one picture. Whatever the vendor answered is counted, also where nothing could be made of it."""

    def __init__(self, price: float | None, context: ToolContext) -> None:
        self.paid = 0
        """Attempts that may have to be paid."""
        self._price, self._context = price, context
        self._payable = False

    @property
    def cost(self) -> float | None:
        """USD; None: the price is not known."""
        return None if self._price is None else self._price * self.paid

    async def attempt(self, reply: Coroutine[Any, Any, AssistantMessage]) -> AssistantMessage:
        """
        Raises:
            ToolFailed: it would pass the cost limit.
            ProviderError: as the request.
        """
        if not self._payable and not self._context.payable(self._price):
            reply.close()
            raise ToolFailed(self._too_dear(), hint="go on without a picture, or tell the user")
        self._payable = True
        try:
            message = await reply
        except ProviderError as error:
            if may_cost(error):
                self._spent()
            raise
        self._spent()
        return message

    def _spent(self) -> None:
        self.paid += 1
        self._payable = False

    def lost(self, why: str, shown: list[Image]) -> ToolResult:
        """The result where no picture was saved and there may be a bill. ``shown``: the picture, where one came."""
        text = f"the picture was drawn and could not be saved: {why}" if shown else why
        if self.cost is None:
            text += "\nWhat it cost is not known here and not counted."
        else:
            text += f"\nIt may have cost {usd(self.cost)}, which is counted."
        return ToolResult(text, shown, is_error=True, cost_usd=self.cost)

    def _too_dear(self) -> str:
        if self._price is None:
            return "this turn has a cost limit, and what a picture costs is not known"
        return f"a picture costs {usd(self._price)}, which would pass the cost limit of this turn"


def _check(given: GenerateImageInput) -> None:
    if not given.prompt.strip():
        raise ToolFailed("the prompt is empty", hint="say what the picture shows")
    if hide(given.prompt) != given.prompt:
        raise ToolFailed("the prompt holds one of the user's keys, which is not sent", hint="say it without")
    if len(given.references) > MAX_REFERENCES:
        raise ToolFailed(f"{len(given.references)} references are too many: up to {MAX_REFERENCES} are taken")


def _check_name(place: Place) -> None:
    check_new_name(place)
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in place.parts):
        raise ToolFailed(f"a name in the path has more than {_LONGEST_NAME} bytes", hint="choose a shorter one")


def _references(paths: list[str], context: ToolContext) -> list[Image]:
    return [_reference(path, context) for path in paths]


def _reference(path: str, context: ToolContext) -> Image:
    place = Place(context.cwd, path)
    with place.parent() as folder, os.fdopen(folder.open(place.parts[-1]), "rb") as file:
        data = file.read(MAX_BYTES + 1)
    kind = media_type(data[:16])
    if kind is None:
        raise ToolFailed(f"{place.name} is no PNG, JPEG, GIF or WebP image", hint="give picture files")
    if wrong := fault(data):
        raise ToolFailed(f"{place.name} {wrong}", hint="make a smaller or sound copy first")
    return Image(media_type=kind, data=base64.b64encode(data).decode("ascii"))


def _stem(given: GenerateImageInput) -> str:
    """The path without its ending."""
    wanted = given.path.strip()
    if wanted and not wanted.endswith(("/", "\\")):
        root, ending = os.path.splitext(wanted)  # noqa: PTH122 - the model's own spelling is kept
        return root if ending.lower() in (*_KINDS.values(), ".jpeg") else wanted
    plain = unicodedata.normalize("NFKC", given.prompt).lower()
    words = re.sub(r"[\W_]+", "-", plain).strip("-")
    if len(words) > _NAME:
        words = words[:_NAME].rpartition("-")[0] or words[:_NAME]
    return wanted + (words or "picture")


def _free(stem: str, ending: str, names: set[str]) -> str:
    """The first name that nothing has, in whatever letters."""
    taken = {name.casefold() for name in names}
    name, number = stem + ending, 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem}-{number}{ending}"
    return name


def _save(data: bytes, image: Image, stem: str, context: ToolContext) -> tuple[str, Image]:
    """Put the picture into a new file. Returns its name, and the picture as it is shown."""
    kind = media_type(data[:16])
    if kind is None:
        raise ToolFailed("what the vendor sent is no picture that is known here", hint="try again, or another model")
    place = Place(context.cwd, stem + _KINDS[kind])
    with place.parent(create=True) as folder:
        draft = Draft(folder, temporary_name(place.parts[-1]))
        try:
            draft.fill(data)
            context.abort.check()
            name = _put(folder, draft.name, place.parts[-1].removesuffix(_KINDS[kind]), _KINDS[kind])
        except BaseException:
            draft.discard()
            raise
        draft.close()
        folder.sync()
    shown = image if image.data else replace(image, data=base64.b64encode(data).decode("ascii"), vendor=None)
    return str(Path(place.name).with_name(name)), replace(shown, media_type=kind)


def _shown(data: bytes) -> list[Image]:
    """The picture as it can be shown; nothing where it is none that is known, or no vendor would take it."""
    kind = media_type(data[:16])
    if kind is None or fault(data):
        return []
    return [Image(media_type=kind, data=base64.b64encode(data).decode("ascii"))]


def _put(folder: Folder, draft: str, stem: str, ending: str) -> str:
    """Give the draft a name that nothing has: who comes at the same time gets the next one. Returns the name."""
    while True:
        name = _free(stem, ending, set(folder.names()))
        try:
            os.close(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        try:
            folder.replace(draft, name)
        except BaseException:
            folder.unlink(name)
            raise
        return name
