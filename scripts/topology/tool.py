"""Drives rabbitmqadmin: the Python tool of the management plugin (v1) or the native one (v2)."""

import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

TIMEOUT = 60


class ToolError(Exception):
    """rabbitmqadmin could not be had or ended with an error."""


class Tool:
    """One rabbitmqadmin. Its configuration file, mode 0600 in folder, carries the administrator's password."""

    def __init__(self, settings, folder):
        self.settings, self.folder = settings, folder
        found = settings.tool or shutil.which("rabbitmqadmin")
        self.command = [found] if found else [sys.executable, self.fetch()]
        self.v2 = self.is_v2()
        self.config = os.path.join(folder, "rabbitmqadmin.conf")
        with open(self.config, "x", encoding="utf-8", opener=private) as file:
            file.write(self.config_v2() if self.v2 else self.config_v1())

    def fetch(self):
        """Gets the Python tool from the management plugin, which serves it without a login."""
        url = self.settings.api.geturl() + "/cli/rabbitmqadmin"
        context = ssl.create_default_context(cafile=self.settings.ca_file) if self.settings.ca_file else None
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT, context=context) as answer:
                script = answer.read()
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise ToolError(f"fetch {url}: {error.reason}; install rabbitmqadmin") from None
            raise ToolError("this RabbitMQ no longer brings the Python tool (since 4.3); install rabbitmqadmin v2 from "
                            "https://github.com/rabbitmq/rabbitmqadmin-ng/releases") from None
        except (OSError, urllib.error.URLError) as error:
            raise ToolError(f"fetch {url}: {getattr(error, 'reason', error)}; install rabbitmqadmin") from None
        if not script.startswith(b"#!") or b"python" not in script.splitlines()[0]:
            raise ToolError(f"{url} is not the Python tool; install rabbitmqadmin v2 from "
                            "https://github.com/rabbitmq/rabbitmqadmin-ng/releases")
        path = os.path.join(self.folder, "rabbitmqadmin")
        with open(path, "xb", opener=private) as file:
            file.write(script)
        return path

    def is_v2(self):
        text = self.execute(["--help"])
        if "help subcommands" in text:
            return False
        if "definitions" in text:
            return True
        raise ToolError(f"{self.command[-1]} is neither rabbitmqadmin 3.x nor v2")

    def config_v1(self):
        s = self.settings
        lines = {
            "hostname": s.api.hostname, "port": s.api.port, "username": s.admin, "password": s.admin_password,
            "ssl": s.api.scheme == "https",
        }
        if s.ca_file:
            lines["ssl_ca_cert_file"] = s.ca_file
        # The file's parser gives % a meaning.
        return "[transmsg]\n" + "".join(f"{k} = {str(v).replace('%', '%%')}\n" for k, v in lines.items())

    def config_v2(self):
        # A JSON string without control characters is a TOML string.
        user, password = json.dumps(self.settings.admin), json.dumps(self.settings.admin_password, ensure_ascii=False)
        return f"[transmsg]\nusername = {user}\npassword = {password}\n"

    def run(self, *arguments, vhost=None):
        """Runs one command; vhost comes before it, as v2 demands."""
        general = ["--config", self.config, "--node", "transmsg"]
        if self.v2:
            general += ["--base-uri", self.settings.api.geturl()]
            if self.settings.ca_file:
                general += ["--use-tls", "--tls-ca-cert-file", self.settings.ca_file]
        if vhost is not None:
            general += ["--vhost", vhost]
        return self.execute([*general, "--quiet", *arguments])

    def execute(self, arguments):
        # The operator's own settings for the tool must not mix with ours, and it needs none of the passwords.
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("TOPOLOGY_", "RABBITMQADMIN_"))}
        try:
            done = subprocess.run([*self.command, *arguments], env=environ, capture_output=True, text=True,
                                  timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"{self.command[-1]}: {getattr(error, 'strerror', 'no answer in time')}") from None
        if done.returncode != 0:
            text = " ".join((done.stderr or done.stdout).split())
            raise ToolError(f"rabbitmqadmin: {text.replace(self.settings.admin_password, '***')[-500:]}")
        return done.stdout

    def export(self):
        """Returns the definitions of the whole cluster. The file holds password hashes; the folder is private."""
        path = os.path.join(self.folder, "export.json")
        self.run(*(["definitions", "export", "--file", path] if self.v2 else ["export", path]))
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def import_users(self, users):
        """Creates or changes users. By import, since declaring one takes the password as an argument."""
        path = os.path.join(self.folder, "users.json")
        with open(path, "w", encoding="utf-8", opener=private) as file:
            json.dump({"users": users}, file)
        self.run(*(["definitions", "import", "--file", path] if self.v2 else ["import", path]))

    def declare_vhost(self, name):
        """Creates a virtual host in which the administrator may do everything."""
        self.run("declare", "vhost", *self.pairs({"name": name}))
        self.declare("permission", self.settings.admin, {"configure": ".*", "write": ".*", "read": ".*"})

    def declare(self, kind, name, attributes):
        """Declares an exchange, a queue, a binding or a permission as wanted.objects describes it."""
        vhost = self.settings.vhost
        if kind == "permission":
            if self.v2:
                self.run("declare", "permissions", *self.pairs({"user": name, **attributes}), vhost=vhost)
            else:
                self.run("declare", kind, *self.pairs({"vhost": vhost, "user": name, **attributes}))
            return
        values = {k: v for k, v in attributes.items() if k != "internal"}  # Never internal; v2 cannot say it.
        if kind == "binding":
            values["destination_type"] = "queue"
        else:
            values["name"] = name
        if self.v2 and kind == "queue":
            values["arguments"] = dict(values["arguments"])
            values["type"] = values["arguments"].pop("x-queue-type")
        self.run("declare", kind, *self.pairs(values), vhost=vhost)

    def pairs(self, values):
        """Writes arguments the tool's way: name=value, or --name value."""
        out = []
        for name, value in values.items():
            text = value if isinstance(value, str) else json.dumps(value)
            out += ["--" + name.replace("_", "-"), text] if self.v2 else [f"{name}={text}"]
        return out


def private(path, flags):
    """Opens a file that only its owner may read."""
    return os.open(path, flags, 0o600)
