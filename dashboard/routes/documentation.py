"""The API's description for people, made from its OpenAPI document; nothing is fetched from elsewhere."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from dashboard.rendering import render
from dashboard.services import Reader

router = APIRouter()


@router.get("/api/docs", name="api_docs")
def page(request: Request, access: Reader) -> HTMLResponse:
    """Show every call: its parameters, what it takes and what it gives."""
    document = request.app.openapi()
    calls = [
        {
            "method": method.upper(),
            "path": path,
            "summary": call.get("summary", ""),
            "description": call.get("description", ""),
            "parameters": [_parameter(each) for each in call.get("parameters", [])],
            "body": _schema_name(call.get("requestBody", {})),
            "answer": _schema_name(call.get("responses", {}).get("200", {})),
        }
        for path, methods in document["paths"].items()
        for method, call in methods.items()
    ]
    schemas = {name: _fields(schema) for name, schema in document.get("components", {}).get("schemas", {}).items()}
    return render(
        request, "api.html", access=access, calls=calls, schemas=schemas, base=str(request.base_url).rstrip("/")
    )


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": parameter["name"],
        "place": parameter["in"],
        "required": parameter.get("required", False),
        "type": _type(parameter.get("schema", {})),
        "default": parameter.get("schema", {}).get("default"),
        "description": parameter.get("description", ""),
    }


def _fields(schema: dict[str, Any]) -> list[tuple[str, str, bool]]:
    required = schema.get("required", [])
    return [(name, _type(field), name in required) for name, field in schema.get("properties", {}).items()]


def _schema_name(part: dict[str, Any]) -> str:
    contents = [content["schema"] for content in part.get("content", {}).values() if content.get("schema")]
    return _type(contents[0]) if contents else ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(option) for option in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
