"""Tools of the type http become HTTP tools, from files with a document for each tool and from nested ones."""

import pytest
import yaml

from covalt_git.errors import CovaltError
from covalt_git.formats import document_reader, documents, recognition
from covalt_git.formats.table import TOOLSET
from tests.formats import laws

CONTENT = (laws.FIXTURES / "genai-toolbox/documents.yaml").read_bytes()


def test_a_file_with_a_document_for_each_tool_is_read_with_bodies_and_schemas() -> None:
    done = laws.converted(CONTENT, recognition.find_format("genai-toolbox"), TOOLSET, "tools.yaml")
    report, levels, listed = yaml.safe_load(done.files["toolset.yaml"])["tools"]

    assert report["http"]["query"] == {"units": "metric"}
    assert report["http"]["headers"]["Accept"] == "${WEATHER_ACCEPT:-application/json}"
    assert report["http"]["body"]["json"] == {
        "degrees": "$args.degrees",
        "text": "It is ${args.word} for $$5.",
        "tags": "$args.tags",
        "word": "$args.word",
    }
    schema = report["input_schema"]
    assert schema["required"] == ["station", "degrees", "word"]
    assert schema["properties"]["degrees"]["minimum"] == -90
    assert schema["properties"]["word"]["enum"] == ["sunny", "cloudy"]
    assert schema["properties"]["tags"]["items"]["type"] == "string"
    assert report["limits"] == {"timeout_s": 90}
    assert levels["http"]["body"] == {"text": 'level="${args.level}"'}
    assert levels["annotations"] == {"read_only": False, "destructive": True}
    limits = listed["input_schema"]["properties"]["limits"]
    assert limits["additionalProperties"] == {"type": "integer"}
    lost = [one.pointer for one in done.lost]
    assert lost == ["/1", "/2/authRequired", "/2/bodyParams/3", "/5", "/6", "/7", "/8"]
    assert all("no field" not in one.reason for one in done.lost)


def test_problems_of_several_documents_have_their_lines() -> None:
    text = "kind: sources\nname: a\ntype: http\n---\nkind: tools\nname: b\ntype: http\npath: 5\n"
    document = documents.parse(text.encode(), "tools.yaml")
    with pytest.raises(CovaltError) as caught:
        document_reader.read(document, recognition.recognize(document))
    assert [(one.line, one.code) for one in caught.value.problems] == [(8, "CG203")]


def test_a_file_with_one_tool_is_recognized() -> None:
    text = "kind: tools\nname: b\ntype: postgres-sql\nqueryParams: ${PARAMS}\n"
    document = documents.parse(text.encode(), "tools.yaml")

    found = recognition.recognize(document)
    assert found.name == "genai-toolbox"
    assert list(document_reader.read(document, found).imported.lost) == [()]  # no problem
