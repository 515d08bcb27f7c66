#!/usr/bin/env python3
"""Declares the exchanges, queues and users that services with transmsg need, and proves by an export that they are
as asked. Can be run as often as you like.

usage: topology.py [apply|check]    apply declares what is missing, then checks; check changes nothing
Settings come from the environment: docs/operate/topology.md lists them. Needs python3 3.9+ and rabbitmqadmin, which
is fetched from the broker's management plugin where it is not installed.
Exit status: 0 everything is as asked, 1 it is not (every difference is named), 2 wrong settings.
"""

import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True  # Before the imports below: a read-only or shared folder stays as it is.

from safety import breaches
from settings import Settings, UsageError
from tool import Tool, ToolError
from wanted import Export, objects, user_definition


def main(arguments):
    verb = arguments[0] if arguments else "apply"
    if verb in ("-h", "--help"):
        print(__doc__)
        return 0
    if verb not in ("apply", "check") or len(arguments) > 1:
        say(f"usage: topology.py [apply|check], not {' '.join(arguments)}")
        return 2
    try:
        settings = Settings(os.environ)
        if verb == "apply" and len(settings.passwords) < len(settings.users):
            missing = [f"TOPOLOGY_{role.upper()}_PASSWORD" for role in settings.users if role not in settings.passwords]
            raise UsageError(f"{', '.join(missing)} (or ..._FILE) is required")
    except UsageError as error:
        say(error)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="transmsg-topology-") as folder:
            tool = Tool(settings, folder)
            return run(tool, settings, verb == "apply")
    except (ToolError, OSError, json.JSONDecodeError) as error:
        say(error)
        return 1


def run(tool, settings, apply):
    """Declares what differs, when apply says so, and reports what still does."""
    refused = declare_all(tool, settings) if apply else []
    export = Export(tool.export(), settings.vhost)
    wanted = objects(settings, export.version)
    differences = [text for item in wanted for text in export.differences(item)]
    if not export.has_vhost:
        differences.insert(0, f"virtual host {settings.vhost} is missing")
    found = [*refused, *differences, *breaches(export, settings)]
    for text in found:
        say(text)
    if found:
        say(f"{len(found)} differences; an existing queue or exchange is never changed: delete it when it is empty, "
            "then run this again")
        return 1
    print(f"topology: {len(wanted)} objects in virtual host {settings.vhost} are as asked")
    return 0


def declare_all(tool, settings):
    """Declares every object that the broker does not have as asked; returns what the broker refused."""
    export = Export(tool.export(), settings.vhost)
    if not export.has_vhost:
        tool.declare_vhost(settings.vhost)
        print(f"declared virtual host {settings.vhost}")
    refused = []
    for item in objects(settings, export.version):
        kind, name, attributes = item
        if not export.differences(item):
            continue
        try:
            if kind == "user":
                tool.import_users([user_definition(name, attributes["password"])])
            else:
                tool.declare(kind, name, attributes)
        except ToolError as error:
            refused.append(f"{kind} {name}: {error}")
            continue
        print(f"declared {kind} {name}")
    return refused


def say(text):
    print(f"topology: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
