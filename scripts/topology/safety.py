"""What makes a broker lose messages after it has confirmed them: looked for in an export, whoever made it."""

from wanted import DELIVERY_LIMIT, effective

LIMITS = ("max-length", "max-length-bytes")


def breaches(export, settings):
    """Returns the dangers for messages of this topology, one text each."""
    out = []
    for name in sorted(reached(export, settings.exchanges)):
        out += exchange_breaches(export, name)
    dead = dead_letter_queues(export, settings)
    for name in target_queues(export, settings) - dead:
        out += target_breaches(export, name)
    for name in dead:
        out += dead_letter_breaches(export, name)
    ours = set(settings.users.values())
    for permission in export.topic_permissions:
        if permission["user"] in ours:
            out.append(f"user {permission['user']}: a topic permission on {permission['exchange'] or '(default)'} "
                       "can forbid single routing keys; clear it")
    return sorted(out)


def reached(export, exchanges):
    """Returns the exchanges and those bound behind them, however far: a message passes through all."""
    out, more = set(), set(exchanges)
    while more:
        out |= more
        more = {b["destination"] for b in export.bindings
                if b["source"] in more and b["destination_type"] == "exchange"} - out
    return out


def bound_queues(export, exchanges):
    """Returns the queues that what is published to the exchanges can end in."""
    sources = reached(export, exchanges)
    return {b["destination"] for b in export.bindings
            if b["source"] in sources and b["destination_type"] == "queue"}


def target_queues(export, settings):
    """Queues that a publish can end in: bound to our exchanges, by us or by others, and our own."""
    return (bound_queues(export, settings.exchanges) | set(settings.queues)) & set(export.queues)


def dead_letter_queues(export, settings):
    """Queues that dead letters of our queues end in."""
    exchanges, queues = {settings.dead_exchange}, {settings.dead_queue}
    for name in target_queues(export, settings):
        exchange = setting(export, name, "dead-letter-exchange")
        if exchange == "":  # The default exchange: straight to a queue.
            queues.add(setting(export, name, "dead-letter-routing-key"))
        elif exchange is not None:
            exchanges.add(exchange)
    return (queues | bound_queues(export, exchanges)) & set(export.queues)


def setting(export, queue, key):
    """Returns a queue's setting: on quorum queues a policy wins for overflow, else the argument does."""
    arguments = export.queues[queue].get("arguments") or {}
    kind = queue_type(export, queue)
    targets = ("all", "queues", kind + "_queues")
    policy = effective(export.policies, queue, targets)
    operator = effective(export.operator_policies, queue, targets)
    by_policy = operator.get(key, policy.get(key))
    by_argument = arguments.get("x-" + key)
    if key == "overflow" and by_policy is not None and kind == "quorum":
        return by_policy
    return by_argument if by_argument is not None else by_policy


def queue_type(export, queue):
    return (export.queues[queue].get("arguments") or {}).get("x-queue-type", "classic")


def exchange_breaches(export, name):
    arguments = export.exchanges.get(name, {}).get("arguments") or {}
    policy = effective(export.policies, name, ("all", "exchanges"))
    if "alternate-exchange" in arguments or "alternate-exchange" in policy:
        yield f"exchange {name}: an alternate exchange takes what no queue wants, so that it counts as sent"


def target_breaches(export, name):
    overflow = setting(export, name, "overflow") or "drop-head"
    quorum = queue_type(export, name) == "quorum"
    safe = overflow == "reject-publish" or (overflow == "reject-publish-dlx" and not quorum)
    for limit in LIMITS:
        value = setting(export, name, limit)
        if value is not None and not safe:
            yield (f"queue {name}: {limit} {value} with overflow {overflow} drops confirmed messages; "
                   "use reject-publish or no limit")
    if quorum and overflow != "reject-publish" and setting(export, name, "dead-letter-strategy") == "at-least-once":
        yield f"queue {name}: overflow {overflow} turns at-least-once dead-lettering off; use reject-publish"
    if setting(export, name, "expires") is not None:
        yield f"queue {name}: expires deletes the queue with its messages; remove it"
    yield from expiry_breaches(export, name)
    yield from fleeting_breaches(export, name, f"queue {name}")


def expiry_breaches(export, name):
    """What grows too old, or is given back too often, goes to the dead-letter exchange, or nowhere."""
    exchange = setting(export, name, "dead-letter-exchange")
    limits = {key: setting(export, name, key) for key in ("message-ttl", "delivery-limit")}
    if queue_type(export, name) != "quorum":
        del limits["delivery-limit"]  # Known to quorum queues alone.
    elif limits["delivery-limit"] is None and int(export.version.split(".")[0]) >= 4:
        limits["delivery-limit"] = DELIVERY_LIMIT
    for key, value in limits.items():
        if value is None or value == -1:
            continue
        if exchange is None:
            yield (f"queue {name}: {key} {value} without a dead-letter exchange drops confirmed messages; "
                   "name one, or remove the limit")
        elif not letters_arrive(export, name, exchange):
            yield (f"queue {name}: {key} {value} with dead-letter exchange {exchange or '(default)'} drops confirmed "
                   "messages: no queue takes them there")


def letters_arrive(export, name, exchange):
    """Tells whether a queue can take the dead letters of a queue. Keys are not compared."""
    if exchange == "":
        return setting(export, name, "dead-letter-routing-key") in export.queues
    return bool(bound_queues(export, [exchange]) & set(export.queues))


def fleeting_breaches(export, name, title):
    queue = export.queues[name]
    if not queue.get("durable", True):
        yield f"{title}: is transient, so that a restart of the broker deletes it with its messages; make it durable"
    if queue.get("auto_delete", False):
        yield f"{title}: is deleted with its messages when its last consumer leaves; declare it without auto_delete"


def dead_letter_breaches(export, name):
    yield from fleeting_breaches(export, name, f"dead-letter queue {name}")
    for key in (*LIMITS, "message-ttl", "expires"):
        value = setting(export, name, key)
        if value is not None:
            yield f"dead-letter queue {name}: {key} {value} loses dead letters; remove it, whatever the overflow"
