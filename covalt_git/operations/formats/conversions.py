"""Operations on tool formats, the file formats of tool definitions: their list, and conversions."""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from covalt_git import yaml_text
from covalt_git.bundles.archive import pack_files
from covalt_git.bundles.archive_reader import Entry, read_folder, unpack
from covalt_git.errors import CovaltError, UnknownNameError, WrongCallError
from covalt_git.formats import conversion, documents, recognition
from covalt_git.formats.conversion import LostValue
from covalt_git.formats.documents import FormatError
from covalt_git.formats.mcp_packages import mcpb
from covalt_git.formats.table import FORMATS
from covalt_git.formats.toolset_yaml import folder_document
from covalt_git.installs.additions import retitled
from covalt_git.installs.pending_imports import Bundle, bundle_or_folder, shown_source
from covalt_git.installs.staging import write_entries
from covalt_git.manifests.machine_folders import check_output
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.sources.skill_entry import SKILL
from covalt_git.names import new_id
from covalt_git.operations.context import Context
from covalt_git.operations.registry import EmptyRequest, Request, Result, UploadField, operation
from covalt_git.system import atomic_write
from covalt_git.yaml_text import YamlProblems, read_file

if TYPE_CHECKING:
    from covalt_git.formats.conversion import Conversion
    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Format

MOST_FORM_BYTES = documents.MAX_BYTES + (64 << 10)
"""Maximum size in bytes of a form with a document."""

_DOCUMENTS = frozenset({".json", ".yaml", ".yml", ".toml"})
"""Extensions of files that are documents, not bundles."""

_ZIP = b"PK"
SOURCE_FORMAT = "The format of the input; by default it is recognized from the content."


class DocumentBundle(NamedTuple):
    """The bundle of a document's toolset; ``secrets`` are the names that replace its credentials."""

    bundle: Bundle
    lost: tuple[LostValue, ...]
    secrets: tuple[str, ...]
    notes: tuple[str, ...]


class ConvertSent(Request):
    """A document to convert: the file itself."""

    file: Annotated[tuple[UploadField, ...], Field(min_length=1, max_length=1)]
    source_format: str | None = Field(None, max_length=200, description=SOURCE_FORMAT)
    target_format: str = Field(max_length=200, description="The format of the output.")


class ConvertFile(Request):
    """A file or folder of this machine to convert, and where to write the result."""

    path: Path = Field(description="A file, a folder or a ZIP.")
    source_format: str | None = Field(None, description=SOURCE_FORMAT)
    target_format: str = Field(description="The format of the output.")
    output: Path | None = Field(
        None, description="The file or folder to write; by default nothing is written."
    )
    force: bool = Field(default=False, description="Replace an existing file.")
    strict: bool = Field(default=False, description="Write nothing if a value is lost.")
    dry_run: bool = Field(default=False, description="Write nothing.")
    skip_bad: bool = Field(
        default=False, description="Leave out wrong servers and skills, and report them as lost."
    )


class FormatRow(Result):
    """A format, and what can be done with it."""

    name: str
    title: str
    syntax: Literal["json", "yaml", "toml", "folder"]
    file_name: str = Field(description="The usual name of its files.")
    reads: bool
    writes: bool
    experimental: bool = Field(description="Whether its output can change.")


class FormatList(Result):
    """All file formats of tool definitions that can be read or written."""

    formats: tuple[FormatRow, ...]


class ConvertedFile(Result):
    """A file of the output."""

    path: str
    content: str
    encoding: Literal["utf-8", "base64"]


class ConversionNote(Result):
    """A value of the input that the output has in another form."""

    pointer: str
    message: str
    secret: str = Field(description="Name of the secret that replaces a credential, or empty.")


class Converted(Result):
    """A converted document, and what became of the values of the input.

    ``consumed`` values are in the output in its own terms, ``carried`` values unchanged; all others are
    ``lost``.
    """

    source_format: str
    target_format: str
    files: tuple[ConvertedFile, ...] = Field(description="Empty if they were written.")
    written: tuple[str, ...] = Field(description="Paths of the written files.")
    toolsets: int
    tools: int
    destructive: int = Field(
        description="Number of tools whose calls need approval because they can delete or overwrite data."
    )
    consumed: int
    carried: int
    lost: tuple[LostValue, ...]
    notes: tuple[ConversionNote, ...]


@operation()
def list_formats(_context: Context, _request: EmptyRequest) -> FormatList:
    """List the formats that convert_document can read and write."""
    rows = [
        FormatRow.of(
            tool_format,
            syntax=tool_format.kind,
            reads=bool(tool_format.read),
            writes=bool(tool_format.write),
        )
        for tool_format in FORMATS
    ]
    return FormatList(formats=tuple(rows))


@operation(
    changes=True, errors=(404, 422), upload_limit=lambda _: MOST_FORM_BYTES
)  # a form is a POST
def convert_document(_context: Context, request: ConvertSent) -> Converted:
    """Convert a document to another format, and report each value that is lost.

    No code runs, and no connection is made.  Credentials are replaced by references to secrets.
    """
    upload = request.file[0]
    # One byte more than the limit shows that a document is too large, without reading the rest.
    content = upload.stream.read(documents.MAX_BYTES + 1)
    document = _document(content, upload.name or "document")
    return _result(_convert(document, request.source_format, request.target_format))


@operation(changes=True, local=True)
def convert_file(_context: Context, request: ConvertFile) -> Converted:
    """Convert a file or folder, as convert_document does, and write the result if it has a place."""
    target = recognition.find_format(request.target_format, writes=True)
    output = None if request.dry_run else request.output
    if output is not None:
        _check_output(output, target, force=request.force)
    document = document_at(request.path, skip_bad=request.skip_bad)
    source = recognition.recognize(document, request.source_format)
    name = output.stem if output else ""
    result = conversion.convert(document, source, target, output=name, skip_bad=request.skip_bad)
    if output is None or (request.strict and result.lost):
        return _result(result)
    return _result(result, written=_write(result, output))


def is_document(path: Path) -> bool:
    """Return whether a path is a document in another format, by its extension, or a folder of skills; not a bundle."""
    if not path.is_dir():
        return path.suffix in _DOCUMENTS | mcpb.EXTENSIONS or path.name == SKILL
    is_skills = (path / SKILL).exists() or any(path.glob(f"*/{SKILL}"))
    # A toolset may contain skills or an MCP bundle's manifest too.
    return (is_skills or (path / mcpb.MANIFEST).exists()) and not (path / MANIFEST).exists()


_GENERIC_NAME = "MCP servers"
"""The name of the toolset of a document with several servers, which has no name."""


def converted_upload(bundle: Bundle, source: str | None) -> Bundle:
    """Return the bundle of an uploaded document's toolset, as :func:`bundle_of`; another upload stays the same."""
    suffix = Path(bundle.name).suffix
    # An MCP bundle is a ZIP too, so only the extension distinguishes it from a toolset's bundle.
    is_own = bundle.content.startswith(_ZIP) and suffix not in mcpb.EXTENSIONS
    if is_own or suffix not in _DOCUMENTS | mcpb.EXTENSIONS:
        return bundle
    document = _document(bundle.content, bundle.name)
    return bundle_of(document, source, bundle.name, bundle.source_ref).bundle


def bundle_of(document: Document, source: str | None, name: str, source_ref: str) -> DocumentBundle:
    """Return the bundle of the toolset of a document in the format ``source``, by default recognized.

    Its notes describe the credentials and the lost values.

    Raises:
        FormatError: if the document cannot be read, or has several toolsets.
    """
    result = _convert(document, source, "toolset")
    if result.toolsets != 1:
        path = document.path
        hint = f"covalt-git convert {shlex.quote(path)} --to toolset -o FOLDER"
        raise FormatError(
            f"{path!r} has {result.toolsets} toolsets; import each on its own", hint=hint
        )
    secrets = tuple(dict.fromkeys(note.secret for note in result.notes if note.secret))
    notes = [
        f"a credential became a reference to the secret {secret}: its value is not imported, so give it with the grants"
        for secret in secrets
    ]
    notes += [f"{value.pointer} is lost: {value.reason}" for value in result.lost]
    others = tuple(f"{note.pointer}: {note.message}" for note in result.notes if not note.secret)
    notes += others
    bundle = Bundle(_packed(result), name, "zip", source_ref, notes=tuple(notes), converted=True)
    return DocumentBundle(bundle, result.lost, secrets, others)


def _packed(result: Conversion) -> bytes:
    files = dict(result.files)
    if manifest := files.get(MANIFEST):
        data = yaml_text.load(manifest, MANIFEST).data
        # Users import several documents of servers, and lists show the names.
        if data.get("name") == _GENERIC_NAME:
            files[MANIFEST] = retitled(manifest.decode(), data["id"]).encode()
    return pack_files(
        (path, content, path in result.executable) for path, content in sorted(files.items())
    )


def _convert(document: Document, source: str | None, target: str) -> Conversion:
    target_format = recognition.find_format(target, writes=True)
    return conversion.convert(document, recognition.recognize(document, source), target_format)


def document_at(path: Path, *, skip_bad: bool = False) -> Document:
    """Return the document of a file or folder; with ``skip_bad``, without wrong skills.

    Raises:
        FormatError: with all problems of the text.
    """
    # This file is one part of its folder, whose other files belong to the tools or the skill.
    if path.name in {MANIFEST, SKILL}:
        path = path.parent
    if path.is_dir():
        return _folder(read_folder(path.resolve()), str(path), skip_bad=skip_bad)
    if not os.path.lexists(path):
        folder = path.parent
        names = [str(file) for file in folder.iterdir()] if folder.is_dir() else ()
        list_with = f"ls {shlex.quote(str(folder))}"
        raise UnknownNameError("file", str(path), names, list_with=list_with)
    try:
        content = read_file(path, str(path), max_bytes=documents.MAX_BYTES)
        return _document(content, str(path), skip_bad=skip_bad)
    except YamlProblems as error:
        raise documents.refuse(str(path), error.problems) from None


def _document(content: bytes, path: str, *, skip_bad: bool = False) -> Document:
    if content.startswith(_ZIP):
        is_bundle = Path(path).suffix in mcpb.EXTENSIONS
        # A signed MCP bundle has its signature after the end of the ZIP, which the reader of ZIPs refuses.
        content = mcpb.without_signature(content) if is_bundle else content
        entries = unpack(content, path, allow_bytecode=is_bundle)
        return _folder(entries, path, skip_bad=skip_bad)
    if Path(path).suffix in mcpb.EXTENSIONS | {".zip"}:
        raise FormatError(f"{path!r} is not a ZIP archive", hint="download or build it again")
    return documents.parse(content, path)


def _folder(entries: list[Entry], path: str, *, skip_bad: bool = False) -> Document:
    executable = {entry.path for entry in entries if entry.executable}
    files = {entry.path: entry.content for entry in entries}
    return folder_document(path, files, executable, skip_bad=skip_bad)


def _check_output(output: Path, target: Format, *, force: bool) -> None:
    # A dangling link exists too: writing to it would create its target.
    if not os.path.lexists(output):
        return
    if target.is_host_config:
        hint = "write another file, and copy its servers"
        raise WrongCallError(
            f"{str(output)!r} exists, and can have other settings of its host", hint=hint
        )
    if not force:
        raise WrongCallError(
            f"{str(output)!r} already exists", hint="use another name, or add --force"
        )
    if output.is_dir():
        raise WrongCallError(f"{str(output)!r} is a folder, which --force does not replace")


def _write(result: Conversion, output: Path) -> tuple[str, ...]:
    """Write the files of a conversion: a ZIP, one file, or a folder that appears at once."""
    # A clone may have a link here, which leads outside of the project (tests/security/test_links_of_a_clone.py).
    check_output(output)
    is_file = result.target.kind != "folder" or output.suffix in {".yaml", ".yml", ".md"}
    unfinished = output.parent / f".{output.name}.{new_id()}.new"
    try:
        if output.suffix == ".zip":
            atomic_write.replace(output, _packed(result))
        elif len(result.files) == 1 and is_file:
            atomic_write.replace(output, *result.files.values())
        else:
            entries = [Entry(*file, file[0] in result.executable) for file in result.files.items()]
            write_entries(unfinished, entries)
            atomic_write.rename(unfinished, output)
            return tuple(str(output / path) for path in sorted(result.files))
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise FormatError(f"{str(output)!r} cannot be written: {reason}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return (str(output),)


def _result(result: Conversion, *, written: tuple[str, ...] = ()) -> Converted:
    files = () if written else sorted(result.files.items())
    return Converted.of(
        result,
        source_format=result.source.name,
        target_format=result.target.name,
        files=tuple(_file(path, content) for path, content in files),
        written=written,
        consumed=len(result.consumed),
        carried=len(result.carried),
    )


def _file(path: str, content: bytes) -> ConvertedFile:
    try:
        return ConvertedFile(path=path, content=content.decode("utf-8"), encoding="utf-8")
    except UnicodeDecodeError:
        text = base64.b64encode(content).decode("ascii")
        return ConvertedFile(path=path, content=text, encoding="base64")


def _converted(context: Context, source: Path, source_format: str | None) -> Bundle:
    """Return the bundle of a document in another format, and report what is lost."""
    result = bundle_of(document_at(source), source_format, source.name, shown_source(source))
    if result.secrets:
        context.report(f"credentials became references to secrets: {', '.join(result.secrets)}")
    if result.lost:
        command = f"covalt-git convert {shlex.quote(str(source))} --to toolset --dry-run"
        context.report(
            f"number of values that toolset.yaml cannot hold: {len(result.lost)}; see {command}"
        )
    return result.bundle


def bundle_at(
    context: Context,
    source: Path | str,
    signature: Path | None,
    source_format: str | None = None,
    sha256: str | None = None,
) -> Bundle | Path:
    """Return a bundle with its signature, or a folder, which cannot be signed.

    A document in another format is converted; ``source_format`` is its format, by default recognized.

    Raises:
        CovaltError: if the bytes of the file have another hash than ``sha256``, as hex digits.
    """
    # A signature or a hash is for the bytes of a file, so those are read first.
    if isinstance(source, Path) and signature is None and sha256 is None and is_document(source):
        return _converted(context, source, source_format)
    result = bundle_or_folder(source, signature)
    if sha256 is not None:
        _check_hash(result, sha256)
    is_signed = isinstance(result, Bundle) and result.signature is not None
    return (
        result if is_signed or isinstance(result, Path) else converted_upload(result, source_format)
    )


def _check_hash(source: Bundle | Path, sha256: str) -> None:
    if isinstance(source, Path):
        raise CovaltError(f"{str(source)!r} is a folder, which has no SHA-256")
    actual = hashlib.sha256(source.content).hexdigest()
    if actual != sha256.lower():
        raise CovaltError(
            f"the SHA-256 of {source.name!r} is {actual}, not {sha256.lower()}: nothing was imported",
            hint="download it again, or ask its author",
        )


def source_at(context: Context, text: str) -> Path | str:
    """Return a URL as text, or the path of a file or folder.

    Raises:
        CovaltError: if it does not exist.
    """
    if text.lower().startswith(("https://", "http://")):
        context.report("downloading the bundle")
        return text
    path = Path(text)
    if not path.exists():
        raise CovaltError(f"no file or folder {text!r}")
    return path
