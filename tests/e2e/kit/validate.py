# SPDX-License-Identifier: MIT
"""Checks recorded traffic against the published MCP schemas. Runs inside the virtual environment,
as one process for the whole suite: a line with the files of a test in, a line with the problems
out.

Every message must be a JSONRPCMessage of the revision that this connection agreed on, and satisfy
the definition of its method (a response: of the method that it answers). Lines that a test broke
on purpose are recorded as `odd` and are not judged. Of the revisions 2024-11-05 and 2025-03-26
there is no schema here; the types of the Python SDK, which speaks them, judge those: another hand's
reading of the same text, and wider, since one set of types serves all revisions. Batches are judged
element by element.
"""

import inspect
import json
import os
import sys
import typing

import jsonschema
import mcp.types
import pydantic

SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "fixtures", "schema")
RESULTS = {
    "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
}
REVISIONS = ("2025-06-18", "2025-11-25")
OLDER = ("2024-11-05", "2025-03-26")


class Revision:
    def __init__(self, name):
        with open(os.path.join(SCHEMAS, f"{name}.json"), encoding="utf-8") as file:
            self.schema = json.load(file)
        self.root = "definitions" if "definitions" in self.schema else "$defs"
        self.definitions = self.schema[self.root]
        self.validators = {}
        self.of_method = {}
        for title, definition in self.definitions.items():
            method = definition.get("properties", {}).get("method", {}).get("const")
            if method:
                self.of_method[method] = title

    def result_of(self, method):
        title = RESULTS.get(method) or self.of_method.get(method, "").replace("Request", "Result")
        return title if title in self.definitions else None

    def problem(self, title, value):
        if title not in self.validators:
            schema = {**self.schema, "$ref": f"#/{self.root}/{title}"}
            self.validators[title] = jsonschema.validators.validator_for(self.schema)(schema)
        error = jsonschema.exceptions.best_match(self.validators[title].iter_errors(value))
        return (
            f"not a {title}: {error.message[:200]} at {list(error.absolute_path)}"
            if error
            else None
        )


class OlderRevision:
    """The same questions, answered by the models of the SDK."""

    def __init__(self):
        self.models = {
            name: model
            for name, model in vars(mcp.types).items()
            if inspect.isclass(model) and issubclass(model, pydantic.BaseModel)
        }
        self.of_method = {}
        for name, model in self.models.items():
            field = model.model_fields.get("method")
            for method in typing.get_args(field.annotation) if field else ():
                if isinstance(method, str):
                    self.of_method[method] = name

    def result_of(self, method):
        title = RESULTS.get(method) or self.of_method.get(method, "").replace("Request", "Result")
        return title if title in self.models else None

    def problem(self, title, value):
        try:
            self.models[title].model_validate(value)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            return f"not a {title}: {first['msg'][:200]} at {list(first['loc'])}"
        return None


class Connection:
    """One file is one process's view of one connection."""

    def __init__(self, revisions, path):
        self.revisions, self.path, self.version = revisions, path, None
        self.asked = {}
        self.problems = []

    def judge(self, number, record):
        if record.get("odd"):
            self.note_request(record)
            return
        try:
            message = json.loads(record["line"])
        except (KeyError, ValueError) as error:
            self.report(number, record, f"not JSON: {error}")
            return
        for one in message if isinstance(message, list) else [message]:
            self.judge_message(number, record, one)

    def note_request(self, record):
        """Of a line broken on purpose only this counts: that its request, if it is one, may be
        answered. One that is not UTF-8 stands there by its bytes.
        """
        try:
            text = record["line"] if "line" in record else bytes.fromhex(record["hex"]).decode("latin-1")
            message = json.loads(text)
        except (KeyError, ValueError):
            return
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict) and "method" in one and "id" in one:
                self.asked[(record["from"], json.dumps(one["id"]))] = one["method"]

    def judge_message(self, number, record, message):
        revision = self.revisions.get(self.version) or self.revisions["2025-06-18"]
        if isinstance(message, dict) and record["from"] == "server" and "result" in message:
            version = self.asked_method(record, message) == "initialize" and message["result"].get(
                "protocolVersion"
            )
            if version:
                self.version = version
                revision = self.revisions.get(version) or self.revisions["2025-06-18"]
        self.report(number, record, revision.problem("JSONRPCMessage", self.with_an_id(message)))
        if not isinstance(message, dict):
            return
        method = message.get("method")
        if method is None:
            asked = self.asked_method(record, message)
            if (
                "result" in message
                and self.version in self.revisions
                and asked
                and revision.result_of(asked)
            ):
                if asked != "tools/call" or "task" not in message["result"]:
                    self.report(
                        number,
                        record,
                        revision.problem(revision.result_of(asked), message["result"]),
                    )
            if message.get("id") is not None and asked is None:
                self.report(
                    number, record, "answers a request that was not seen on this connection"
                )
            return
        if "id" in message:
            self.asked[(record["from"], json.dumps(message["id"]))] = method
        if method in revision.of_method and (self.version in self.revisions or method == "initialize"):
            self.report(number, record, revision.problem(revision.of_method[method], message))

    @staticmethod
    def with_an_id(message):
        """The schemas do not know JSON-RPC's rule that an error about a message whose id could not
        be read has the id null; 2025-11-25 lets it be left out. Both are right, so such an error is
        judged with an id. A session that is over is refused (-32001) without a look at the message.
        """
        error = message.get("error") if isinstance(message, dict) else None
        if (
            isinstance(error, dict)
            and message.get("id") is None
            and error.get("code") in (-32700, -32600, -32001)
        ):
            return {**message, "id": 0}
        return message

    def asked_method(self, record, message):
        asker = "client" if record["from"] == "server" else "server"
        return self.asked.get((asker, json.dumps(message.get("id"))))

    def report(self, number, record, problem):
        if problem:
            line = record.get("line", "")[:300]
            self.problems.append(
                f"{os.path.basename(self.path)}:{number} from the {record['from']}: {problem}: {line}"
            )


def main():
    revisions = {name: Revision(name) for name in REVISIONS}
    revisions.update(dict.fromkeys(OLDER, OlderRevision()))
    for order in sys.stdin:
        problems, count = [], 0
        for path in json.loads(order)["files"]:
            connection = Connection(revisions, path)
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    count += 1
                    try:
                        record = json.loads(line)
                    except ValueError:
                        continue  # the recorder was killed in the middle of a line
                    connection.judge(number, record)
            problems += connection.problems
        print(json.dumps({"problems": problems, "count": count}), flush=True)


if __name__ == "__main__":
    main()
