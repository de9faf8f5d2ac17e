"""Checks everything under deploy/ as far as that goes without a Docker engine or a cluster.

Schemas and linters first (requirements.txt beside this), then what they cannot see: that names
refer to something, that a pod is given longer to leave than the relay takes, that every setting
exists, and, with a built `landfall`, that it understands each command line and configuration.

    check.py [path of the landfall binary]

Says every fault it finds and exits with 1 if there is one. Asks nobody outside this machine.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
ROOT = DEPLOY.parent
TOOLS = pathlib.Path(sys.executable).parent
KUBERNETES = DEPLOY / "kubernetes"
# Not resources of a cluster.
OTHER = {"kustomization.yaml"}
# The oldest with all that is used (`preStop.sleep`), and the newest that the schemas know.
VERSIONS = ["1.30.0", "1.37.0"]
PROFILES = {"redis", "mysql-sqs", "postgres-redis"}
# Read by compose, not by the relay.
OF_COMPOSE = {"LANDFALL_IMAGE", "LANDFALL_PORT"}
# What Landfall demands of a Redis that is the truth.
REDIS = {"appendonly yes", "appendfsync always", "no-appendfsync-on-rewrite no",
         "save 900 1", "save 300 10", "save 60 10000"}
# A command that takes longer than this hangs.
PATIENCE_S = 60
# The exit code of `landfall` for a mistake in the command or the configuration.
MISTAKEN = 2

faults = []


def fault(place, what):
    faults.append(f"{place}: {what}")


class OnceLoader(yaml.SafeLoader):
    """YAML in which a key that is given twice is an error."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(path):
    try:
        documents = list(yaml.load_all(path.read_text(), OnceLoader))
    except yaml.YAMLError as error:
        fault(path.relative_to(ROOT), str(error).replace("\n", " "))
        return []
    return [document for document in documents if document is not None]


def run(place, command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **options)
    if done.returncode != 0:
        fault(place, (done.stdout + done.stderr).strip() or f"exits with {done.returncode}")


def linters():
    run("Dockerfile", [TOOLS / "hadolint", DEPLOY / "Dockerfile"])
    run("compose.yaml", [TOOLS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec",
                         DEPLOY / "compose.yaml"])
    files = [path for path in sorted(KUBERNETES.glob("*.yaml")) if path.name not in OTHER]
    for version in VERSIONS:
        run("kubernetes", [TOOLS / "kubernetes-validate", "--strict", "--quiet",
                           "--kubernetes-version", version, *files])


# ---- compose ----------------------------------------------------------------------------------


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text).group(1))


def environment_of(service, example):
    """What the container sees, with compose's own variables at their defaults."""
    given = {**example, **{name: str(value) for name, value in service["environment"].items()}}
    fill = lambda text: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    return {name: fill(value) for name, value in given.items()}


def is_ours(service):
    return "LANDFALL_IMAGE" in service.get("image", "")


def compose(file, example):
    services, volumes = file["services"], set(file["volumes"])
    used = set()
    for name, service in services.items():
        place = f"compose.yaml: {name}"
        profiles = set(service.get("profiles", []))
        if not profiles or not profiles <= PROFILES:
            fault(place, f"is in the profiles {sorted(profiles)}, of {sorted(PROFILES)}")
        for other, how in service.get("depends_on", {}).items():
            if other not in services:
                fault(place, f"depends on {other}, which is nowhere")
                continue
            if not profiles <= set(services[other].get("profiles", [])):
                fault(place, f"depends on {other}, which is in other profiles")
            if how["condition"] == "service_healthy" and "healthcheck" not in services[other]:
                fault(place, f"waits for the health of {other}, which has no check")
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            if source.startswith("."):
                if not (DEPLOY / source).is_file():
                    fault(place, f"mounts {source}, which is nowhere")
            elif source in volumes:
                used.add((source, name))
            else:
                fault(place, f"mounts the volume {source}, which is not declared")
        if service.get("command") != ["migrate"] and "healthcheck" not in service:
            fault(place, "has no health check")
        if "serve" in service.get("command", []):
            grace_ms = int(environment_of(service, example).get(
                "LANDFALL_ENGINE__GRACE_MS", "30000"))
            if seconds(service["stop_grace_period"]) * 1000 <= grace_ms:
                fault(place, "is killed before engine.grace_ms is over")
    for volume in volumes:
        users = [name for source, name in used if source == volume]
        if len(users) != 1:
            fault("compose.yaml", f"the volume {volume} is used by {users}, not by one service")
    if not (DEPLOY / file["x-image"]["build"]["dockerfile"].removeprefix("deploy/")).is_file():
        fault("compose.yaml", "builds from a file that is nowhere")


def example_environment():
    lines = (DEPLOY / "example.env").read_text().splitlines()
    pairs = [line.split("=", 1) for line in lines if line and not line.startswith("#")]
    for pair in pairs:
        if len(pair) != 2 or not re.fullmatch(r"[A-Z][A-Z0-9_]*", pair[0]):
            fault("example.env", f"{pair[0]!r} is no variable with a value")
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def redis_conf():
    lines = (DEPLOY / "redis/redis.conf").read_text().splitlines()
    for missing in sorted(REDIS - {line.strip() for line in lines}):
        fault("redis/redis.conf", f"lacks `{missing}`")


# ---- kubernetes -------------------------------------------------------------------------------


def kubernetes(resources):
    kinds = {(each["kind"], each["metadata"]["name"]): each for each in resources}
    pods = [each for each in resources if each["kind"] in ("Deployment", "StatefulSet", "Job")]
    config = kinds[("ConfigMap", "landfall")]["data"]
    for each in resources:
        place = f"kubernetes: {each['kind']} {each['metadata']['name']}"
        spec = each.get("spec", {})
        if each["kind"] == "HorizontalPodAutoscaler":
            target = spec["scaleTargetRef"]
            if (target["kind"], target["name"]) not in kinds:
                fault(place, f"scales {target['kind']} {target['name']}, which is nowhere")
        if each["kind"] in ("Service", "PodDisruptionBudget"):
            chosen = spec["selector"].get("matchLabels", spec["selector"]).items()
            labels = [pod["spec"]["template"]["metadata"]["labels"].items() for pod in pods]
            if sum(chosen <= label for label in labels) != 1:
                fault(place, "does not select the pods of exactly one workload")
    for pod in pods:
        workload(f"kubernetes: {pod['kind']} {pod['metadata']['name']}", pod, kinds, config)
    listed = load(KUBERNETES / "kustomization.yaml")[0]["resources"]
    there = {path.name for path in KUBERNETES.glob("*.yaml")} - OTHER
    for name in sorted(there.symmetric_difference(listed)):
        if name not in ("secret.yaml", "secret.example.yaml"):
            fault("kubernetes/kustomization.yaml", f"{name} is not both listed and there")


def workload(place, pod, kinds, config):
    template = pod["spec"]["template"]
    selector = pod["spec"].get("selector", {}).get("matchLabels", {})
    if not selector.items() <= template["metadata"]["labels"].items():
        fault(place, "does not select its own pods")
    service = pod["spec"].get("serviceName")
    if service is not None and ("Service", service) not in kinds:
        fault(place, f"is named by the Service {service}, which is nowhere")
    spec, container = template["spec"], template["spec"]["containers"][0]
    for source in container["envFrom"]:
        kind = "ConfigMap" if "configMapRef" in source else "Secret"
        name = next(iter(source.values()))["name"]
        if (kind, name) not in kinds:
            fault(place, f"reads {kind} {name}, which is nowhere")
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    volumes |= {claim["metadata"]["name"] for claim in pod["spec"].get("volumeClaimTemplates", [])}
    for volume in spec.get("volumes", []):
        name = volume.get("secret", {}).get("secretName")
        if name is not None and ("Secret", name) not in kinds:
            fault(place, f"mounts the Secret {name}, which is nowhere")
    for mount in container["volumeMounts"]:
        if mount["name"] not in volumes:
            fault(place, f"mounts {mount['name']}, which is nowhere")
    safe = {**spec["securityContext"], **container["securityContext"]}
    if not (safe.get("runAsNonRoot") and safe.get("readOnlyRootFilesystem")):
        fault(place, "may run as root, or write to its image")
    if pod["kind"] == "Job":
        return
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if probe not in container:
            fault(place, f"has no {probe}")
    pause_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    leaves_s = int(config["LANDFALL_ENGINE__GRACE_MS"]) / 1000 + pause_s
    if spec.get("terminationGracePeriodSeconds", 30) <= leaves_s:
        fault(place, "is killed before engine.grace_ms is over")


# ---- against the code -------------------------------------------------------------------------


def names():
    """Every setting and the metric must exist."""
    reference = (ROOT / "docs/configuration.md").read_text()
    known = set(re.findall(r"`(LANDFALL_[A-Z_]+)`", reference))
    files = [DEPLOY / "Dockerfile", DEPLOY / "compose.yaml", DEPLOY / "example.env"]
    for path in [*files, *sorted(KUBERNETES.glob("*.yaml"))]:
        for name in sorted(set(re.findall(r"LANDFALL_[A-Z_]+", path.read_text()))):
            if name not in known | OF_COMPOSE:
                fault(path.relative_to(ROOT), f"{name} is no setting")
    metrics = (ROOT / "crates/landfall-engine/src/metrics.rs").read_text()
    for path in sorted(KUBERNETES.rglob("*.yaml")):
        for name in sorted(set(re.findall(r"\blandfall_[a-z_]+", path.read_text()))):
            if f'"{name}"' not in metrics:
                fault(path.relative_to(ROOT), f"{name} is no metric")


def here(value):
    """The same address, but where nobody listens and nobody is asked."""
    value = re.sub(r"@[\w.-]+:\d+", "@127.0.0.1:9", value)
    return re.sub(r"https?://[\w.-]+(:\d+)?", "http://127.0.0.1:9", value)


def understood(landfall, place, arguments, environment):
    """Whether the binary takes the command line and finds no mistake in the configuration."""
    # --help comes last, so whatever stands before it has been read and taken.
    run(place, [landfall, *arguments, "--help"])
    if "serve" not in arguments:
        return
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder) / "keys"
        keys.write_text("ed25519:" + "1" * 86 + "\n")
        given = {name: here(value) for name, value in environment.items()}
        given["LANDFALL_INSTANCE__DATA"] = folder
        if "LANDFALL_NEAR__ACCESS_KEYS_FILE" in given:
            given["LANDFALL_NEAR__ACCESS_KEYS_FILE"] = str(keys)
        # Nobody answers there, so it says no; a mistake is another answer.
        checked = subprocess.run([landfall, "check"], env={**given, "PATH": os.environ["PATH"]},
                                 cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
        if checked.returncode == MISTAKEN or "no mistakes" not in checked.stdout:
            fault(place, (checked.stdout + checked.stderr).strip())


def commands(landfall, file, example, resources):
    for name, service in file["services"].items():
        if is_ours(service):
            environment = environment_of({"environment": {}, **service}, example)
            understood(landfall, f"compose.yaml: {name}", service["command"], environment)
    environment = {}
    for each in resources:
        if each["kind"] == "ConfigMap":
            environment.update(each["data"])
        if each["kind"] == "Secret" and each["metadata"]["name"] == "landfall":
            filled = {name: value.replace("sha256:CHANGE-ME", "sha256:" + "0" * 64)
                      for name, value in each["stringData"].items()}
            environment.update(filled)
    for each in resources:
        if each["kind"] in ("Deployment", "StatefulSet", "Job"):
            arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
            place = f"kubernetes: {each['kind']} {each['metadata']['name']}"
            understood(landfall, place, arguments, environment)


def main():
    linters()
    names()
    redis_conf()
    example = example_environment()
    load(KUBERNETES / "metrics/prometheus-adapter.yaml")
    file = load(DEPLOY / "compose.yaml")
    files = [path for path in sorted(KUBERNETES.glob("*.yaml")) if path.name not in OTHER]
    resources = [each for path in files for each in load(path)]
    # What does not parse has been told; what refers to what cannot be told of it.
    if not faults:
        compose(file[0], example)
        kubernetes(resources)
        if len(sys.argv) > 1 and not pathlib.Path(sys.argv[1]).is_file():
            fault(sys.argv[1], "is not there; build it, or leave it out")
        elif len(sys.argv) > 1:
            commands(sys.argv[1], file[0], example, resources)
    for each in faults:
        print(each)
    print(f"deploy: {len(faults)} faults")
    sys.exit(1 if faults else 0)


main()
