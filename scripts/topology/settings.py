"""What the operator asks for: names and passwords from the environment, checked as a whole."""

import os
import re
import urllib.parse

ROLES = ("publisher", "consumer", "compensator")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
KEY = re.compile(r"[A-Za-z0-9._*#-]{1,255}")

DEFAULTS = {
    "TOPOLOGY_API": "http://127.0.0.1:15672",
    "TOPOLOGY_CA_FILE": "",
    "TOPOLOGY_RABBITMQADMIN": "",
    "TOPOLOGY_ADMIN_USER": "guest",
    "TOPOLOGY_VHOST": "/",
    "TOPOLOGY_ROUTES": "orders:orders.all:# payments:payments.all:#",
    "TOPOLOGY_DEAD_LETTER_EXCHANGE": "dead-letters",
    "TOPOLOGY_DEAD_LETTER_QUEUE": "dead-letters",
    "TOPOLOGY_PUBLISHER_USER": "transmsg-publisher",
    "TOPOLOGY_CONSUMER_USER": "transmsg-consumer",
    "TOPOLOGY_COMPENSATOR_USER": "transmsg-compensator",
}
SECRETS = ["TOPOLOGY_ADMIN_PASSWORD"] + [f"TOPOLOGY_{role.upper()}_PASSWORD" for role in ROLES]


class UsageError(Exception):
    """A setting that is wrong; its text never holds a secret."""


class Settings:
    """The checked settings. passwords holds only those roles whose password was given."""

    def __init__(self, environ):
        refuse_unknown(environ)
        value = {name: environ.get(name) or default for name, default in DEFAULTS.items()}
        self.api = api(value["TOPOLOGY_API"])
        self.ca_file = readable("TOPOLOGY_CA_FILE", value["TOPOLOGY_CA_FILE"])
        self.tool = value["TOPOLOGY_RABBITMQADMIN"]
        self.vhost = value["TOPOLOGY_VHOST"]
        self.admin = value["TOPOLOGY_ADMIN_USER"]
        # The account that a new broker has, and lets in from loopback only.
        guest = "guest" if self.admin == "guest" else None
        self.admin_password = secret(environ, "TOPOLOGY_ADMIN_PASSWORD") or guest
        if self.admin_password is None:
            raise UsageError("TOPOLOGY_ADMIN_PASSWORD or TOPOLOGY_ADMIN_PASSWORD_FILE is required")
        self.routes = [route(text) for text in value["TOPOLOGY_ROUTES"].split()]
        self.dead_exchange = name("TOPOLOGY_DEAD_LETTER_EXCHANGE", value["TOPOLOGY_DEAD_LETTER_EXCHANGE"])
        self.dead_queue = name("TOPOLOGY_DEAD_LETTER_QUEUE", value["TOPOLOGY_DEAD_LETTER_QUEUE"])
        self.users, self.passwords = {}, {}
        for role in ROLES:
            setting = f"TOPOLOGY_{role.upper()}_USER"
            self.users[role] = name(setting, value[setting])
            password = secret(environ, f"TOPOLOGY_{role.upper()}_PASSWORD")
            if password is not None:
                self.passwords[role] = password
        self.check_relations()

    @property
    def exchanges(self):
        """The exchanges that publishers write to, each once, in the order given."""
        return list(dict.fromkeys(exchange for exchange, _, _ in self.routes))

    @property
    def queues(self):
        """The queues that consumers read, each once, without the dead-letter queue."""
        return list(dict.fromkeys(queue for _, queue, _ in self.routes))

    def check_relations(self):
        if not self.routes:
            raise UsageError("TOPOLOGY_ROUTES is empty; want exchange:queue:key, separated by spaces")
        if self.dead_exchange in self.exchanges:
            raise UsageError(f"TOPOLOGY_DEAD_LETTER_EXCHANGE {self.dead_exchange} is also in TOPOLOGY_ROUTES")
        if self.dead_queue in self.queues:
            raise UsageError(f"TOPOLOGY_DEAD_LETTER_QUEUE {self.dead_queue} is also in TOPOLOGY_ROUTES")
        users = [self.admin, *self.users.values()]
        if len(set(users)) != len(users):
            raise UsageError("administrator, publisher, consumer and compensator must be four different users")


def refuse_unknown(environ):
    """A misspelt setting must not become a default."""
    known = set(DEFAULTS) | set(SECRETS) | {f"{name}_FILE" for name in SECRETS}
    for variable in sorted(environ):
        if variable.startswith("TOPOLOGY_") and variable not in known:
            raise UsageError(f"unknown environment variable {variable}; known: {', '.join(sorted(known))}")


def secret(environ, variable):
    """Returns the secret from the variable or the first line of the file in VARIABLE_FILE, None without both."""
    direct, path = environ.get(variable), environ.get(f"{variable}_FILE")
    if direct and path:
        raise UsageError(f"{variable} and {variable}_FILE: give one of them")
    if path:
        try:
            with open(path, encoding="utf-8") as file:
                direct = file.readline().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{variable}_FILE: read {path}: {getattr(error, 'strerror', 'not UTF-8')}") from None
        if not direct:
            raise UsageError(f"{variable}_FILE: {path} is empty")
    if direct and (not direct.isprintable() or direct != direct.strip()):
        raise UsageError(f"{variable}: control characters and spaces at its ends cannot be passed to rabbitmqadmin")
    return direct or None


def api(text):
    url = urllib.parse.urlsplit(text)
    try:
        port = url.port
    except ValueError:
        port = None
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.path not in ("", "/"):
        raise UsageError("TOPOLOGY_API must be http://host:port or https://host:port, without user and path")
    return url._replace(netloc=f"{url.hostname}:{port or (15671 if url.scheme == 'https' else 15672)}", path="")


def readable(setting, path):
    if path and not os.access(path, os.R_OK):
        raise UsageError(f"{setting}: {path} cannot be read")
    return path


def name(setting, text):
    if not NAME.fullmatch(text):
        raise UsageError(f"{setting} {text!r} must be letters, digits, '.', '_' and '-', at most 200")
    return text


def route(text):
    parts = text.split(":")
    if len(parts) != 3 or not KEY.fullmatch(parts[2]):
        raise UsageError(f"TOPOLOGY_ROUTES {text!r} must be exchange:queue:key")
    return name("TOPOLOGY_ROUTES", parts[0]), name("TOPOLOGY_ROUTES", parts[1]), parts[2]
