"""The objects that the topology consists of, and how an export of the broker differs from them."""

import base64
import hashlib
import os
import re

# Redeliveries after which a message is dead-lettered: RabbitMQ 4 has this default, older brokers have none.
DELIVERY_LIMIT = 20
SHA256 = "rabbit_password_hashing_sha256"


def objects(settings, server_version):
    """Returns the wanted objects in the order in which they can be declared, as (kind, name, attributes)."""
    out = [exchange(settings.dead_exchange, "fanout")]
    out += [exchange(name, "topic") for name in settings.exchanges]
    out.append(queue(settings.dead_queue, dead_queue_arguments(server_version)))
    out += [queue(name, work_queue_arguments(settings)) for name in settings.queues]
    out.append(binding(settings.dead_exchange, settings.dead_queue, ""))
    out += [binding(*route) for route in settings.routes]
    for role, user in settings.users.items():
        out.append(("user", user, {"tags": [], "password": settings.passwords.get(role)}))
    for role, (write, read) in rights(settings).items():
        out.append(("permission", settings.users[role], {"configure": "^$", "write": write, "read": read}))
    return out


def rights(settings):
    """Returns role -> (write, read). Nobody declares: that is this script's work."""
    return {
        "publisher": (pattern(settings.exchanges), "^$"),
        "consumer": ("^$", pattern([*settings.queues, settings.dead_queue])),
        # Services may store messages for a queue by its name; the broker checks those as amq.default.
        "compensator": (pattern([*settings.exchanges, "amq.default"]), "^$"),
    }


def pattern(names):
    return "^(" + "|".join(name.replace(".", r"\.") for name in names) + ")$"


def exchange(name, kind):
    attributes = {"type": kind, "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
    return ("exchange", name, attributes)


def queue(name, arguments):
    return ("queue", name, {"durable": True, "auto_delete": False, "arguments": arguments})


def binding(source, destination, key):
    attributes = {"source": source, "destination": destination, "routing_key": key}
    return ("binding", f"{source} -> {destination} by {key or 'any key'}", attributes)


def work_queue_arguments(settings):
    return {
        "x-queue-type": "quorum",
        "x-delivery-limit": DELIVERY_LIMIT,
        "x-dead-letter-exchange": settings.dead_exchange,
        # A dead letter leaves the queue only when the dead-letter queue has confirmed it. This needs reject-publish.
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }


def dead_queue_arguments(server_version):
    """No limit of length, age or deliveries: what is dropped here is gone."""
    arguments = {"x-queue-type": "quorum"}
    if int(server_version.split(".")[0]) >= 4:
        arguments["x-delivery-limit"] = -1  # RabbitMQ 4 drops after 20 deliveries unless told otherwise.
    return arguments


class Export:
    """The definitions of a broker, seen from one virtual host."""

    def __init__(self, definitions, vhost):
        self.version = definitions.get("rabbitmq_version") or definitions.get("rabbit_version") or "0"
        self.has_vhost = any(v.get("name") == vhost for v in definitions.get("vhosts", []))
        self.users = {u["name"]: u for u in definitions.get("users", [])}

        def here(kind):
            return [o for o in definitions.get(kind, []) if o.get("vhost") == vhost]

        self.queues = {q["name"]: q for q in here("queues")}
        self.exchanges = {e["name"]: e for e in here("exchanges")}
        self.bindings = here("bindings")
        self.permissions = {p["user"]: p for p in here("permissions")}
        self.topic_permissions = here("topic_permissions")
        self.policies = here("policies")
        self.operator_policies = [p["value"] for p in here("parameters") if p["component"] == "operator_policy"]

    def differences(self, wanted):
        """Returns what is not as the wanted object asks, one text a difference; none when all is."""
        kind, name, attributes = wanted
        found = self.find(kind, name, attributes)
        if found is None:
            return [f"{kind} {name} is missing"]
        if kind == "user":
            return user_differences(name, attributes, found)
        out = []
        for field, want in attributes.items():
            have = found.get(field, False if isinstance(want, bool) else None)
            if field == "arguments":
                out += [f"{kind} {name}: argument {text}" for text in argument_differences(want, have or {})]
            elif have != want:
                out.append(f"{kind} {name}: {field} is {have!r}, want {want!r}")
        return out

    def find(self, kind, name, attributes):
        if kind == "binding":
            same = (b for b in self.bindings if b["destination_type"] == "queue" and not b.get("arguments")
                    and all(b[field] == want for field, want in attributes.items()))
            return next(same, None)
        return getattr(self, kind + "s").get(name)


def argument_differences(want, have):
    for name in sorted(set(want) | set(have)):
        if name not in have:
            yield f"{name} is missing, want {want[name]!r}"
        elif name not in want:
            yield f"{name} is {have[name]!r}, want none"
        elif want[name] != have[name]:
            yield f"{name} is {have[name]!r}, want {want[name]!r}"


def user_differences(name, attributes, found):
    tags = found.get("tags") or []
    if isinstance(tags, str):
        tags = [tag for tag in tags.split(",") if tag]
    out = []
    if tags != attributes["tags"]:
        out.append(f"user {name}: tags are {tags!r}, want none")
    if attributes["password"] is not None and not password_is(found, attributes["password"]):
        out.append(f"user {name}: the password is another than the one given")
    return out


def password_is(user, password):
    """Tells whether the exported hash is that of password: four bytes of salt, then SHA-256 over salt and password."""
    if user.get("hashing_algorithm") != SHA256:
        return False
    raw = base64.b64decode(user["password_hash"])
    return hashlib.sha256(raw[:4] + password.encode()).digest() == raw[4:]


def user_definition(name, password):
    """Returns the user as the broker imports it; only the salted hash leaves this process."""
    salt = os.urandom(4)
    digest = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
    return {"name": name, "password_hash": digest, "hashing_algorithm": SHA256, "tags": ""}


def effective(policies, name, targets):
    """Returns the definition in force: that of the matching policy with the highest priority."""
    matching = [p for p in policies if p.get("apply-to", "all") in targets and re.search(p["pattern"], name)]
    return max(matching, key=lambda p: p.get("priority", 0))["definition"] if matching else {}
