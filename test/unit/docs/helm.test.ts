import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";
import { Deployment } from "kubernetes-models/apps/v1";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { ConfigMap, Service } from "kubernetes-models/v1";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { SHUTDOWN_SECONDS } from "../../../src/kernel/constants.ts";
import { RELEASE } from "../../../src/platform/lib/release.ts";

/** The chart of deploy/helm, linted and rendered by Helm, which .ci/run installs. */
const root = join(import.meta.dirname, "../../..");
const chart = join(root, "deploy/helm");
const text = (file: string) => readFileSync(join(chart, file), "utf8");

// biome-ignore lint/suspicious/noExplicitAny: manifests have the shape that Kubernetes' schema checks.
type Manifest = Record<string, any>;
type Values = Record<string, unknown>;

const KINDS = { Deployment, Service, PodDisruptionBudget, HorizontalPodAutoscaler, ConfigMap, ServiceMonitor };

const EVERYTHING = {
  publicUrl: "https://purser.example",
  image: { digest: `sha256:${"0".repeat(64)}` },
  imagePullSecrets: [{ name: "registry" }],
  database: { secret: "pg-app", key: "uri" },
  settings: { PURSER_SIGNUP: "closed", PURSER_KEEP_RUNS_DAYS: 90 },
  env: [{ name: "OPENAI_API_KEY", valueFrom: { secretKeyRef: { name: "openai", key: "key" } } }],
  config: { providers: [{ name: "lab", kind: "openai-compatible", base_url: "http://lab/v1" }], margin: 1.1 },
  api: { autoscaling: { enabled: true } },
  worker: { enabled: true, autoscaling: { enabled: true, maxReplicas: 20 } },
  metrics: { enabled: true, serviceMonitor: { enabled: true, labels: { release: "prometheus" } } },
  podAnnotations: { "example.com/team": "agents" },
  nodeSelector: { "kubernetes.io/arch": "arm64" },
  tolerations: [{ key: "agents", operator: "Exists" }],
  affinity: { nodeAffinity: {} },
};

const helm = (...args: string[]) => spawnSync("helm", args, { encoding: "utf8" });
const has_helm = helm("version").status === 0;

it("Helm is installed in continuous integration", () => {
  if (process.env.CI !== undefined) expect(has_helm, ".ci/run installs it").toBe(true);
});

describe.skipIf(!has_helm)("the chart", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "purser-helm-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** JSON is YAML, so Helm reads the values as they are. */
  function valuesFile(values: Values): string {
    const file = join(folder, "values.json");
    writeFileSync(file, JSON.stringify(values));
    return file;
  }
  const render = (values: Values, release = "purser") => helm("template", release, chart, "-f", valuesFile(values));

  function manifests(values: Values, release?: string): Manifest[] {
    const { stdout, stderr } = render(values, release);
    expect(stderr).toBe("");
    const documents = parseAllDocuments(stdout);
    expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
    return documents.map((document) => document.toJS()).filter((manifest) => manifest !== null);
  }

  const find = (all: Manifest[], kind: string, name: string): Manifest =>
    all.find((each) => each.kind === kind && each.metadata.name === name) ?? expect.fail(`no ${kind} ${name}`);
  const podOf = (deployment: Manifest) => deployment.spec.template.spec;
  const envOf = (deployment: Manifest) =>
    new Map<string, Manifest>(podOf(deployment).containers[0].env.map((each: Manifest) => [each.name, each]));

  it.each([
    ["the fewest values", { publicUrl: "https://purser.example" }],
    ["every value", EVERYTHING],
  ])("renders with %s what Kubernetes' own schema accepts", (_, values) => {
    const all = manifests(values);
    for (const manifest of all) {
      const Kind = KINDS[manifest.kind as keyof typeof KINDS];
      expect(Kind, manifest.kind).toBeDefined();
      new Kind(manifest as never).validate();
    }
    const names = all.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(new Set(names).size).toBe(names.length);
  });

  it("with a fault is rejected by that schema", () => {
    const deployment = find(manifests({ publicUrl: "https://purser.example" }), "Deployment", "purser-api");
    const faulty = { ...deployment, spec: { ...deployment.spec, replicas: "two" } };
    expect(() => new Deployment(faulty as never).validate()).toThrow(/replicas/);
  });

  it("has nodes of the role all, and of the roles api and worker once there are workers", () => {
    const roles = (values: Values) =>
      manifests({ publicUrl: "https://purser.example", ...values })
        .filter(({ kind }) => kind === "Deployment")
        .map((deployment) => [deployment.metadata.name, envOf(deployment).get("PURSER_ROLE")?.value]);
    expect(roles({})).toEqual([["purser-api", "all"]]);
    expect(roles({ worker: { enabled: true } })).toEqual([
      ["purser-api", "api"],
      ["purser-worker", "worker"],
    ]);
  });

  it("takes secrets by reference only", () => {
    const all = manifests(EVERYTHING);
    expect(all.map(({ kind }) => kind)).not.toContain("Secret");
    for (const name of ["purser-api", "purser-worker"]) {
      const deployment = find(all, "Deployment", name);
      const { valueFrom } = envOf(deployment).get("DATABASE_URL") ?? {};
      expect(valueFrom).toEqual({ secretKeyRef: { name: "pg-app", key: "uri" } });
      expect(podOf(deployment).containers[0].envFrom).toEqual([{ secretRef: { name: "purser" } }]);
    }
  });

  it("runs without root and with a read-only root file system", () => {
    for (const name of ["purser-api", "purser-worker"]) {
      const pod = podOf(find(manifests(EVERYTHING), "Deployment", name));
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 10_001 });
      expect(pod.containers[0].securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
      expect([pod.enableServiceLinks, pod.automountServiceAccountToken]).toEqual([false, false]);
    }
  });

  it("gives nodes more time to stop than PURSER_LAME_DUCK_SECONDS, PURSER_DRAIN_SECONDS and the time after it", () => {
    for (const values of [{}, { lameDuckSeconds: 20, drainSeconds: 600 }]) {
      const deployment = find(
        manifests({ publicUrl: "https://purser.example", ...values }),
        "Deployment",
        "purser-api",
      );
      const seconds = (name: string) => Number(envOf(deployment).get(name)?.value);
      const { terminationGracePeriodSeconds } = podOf(deployment);
      const needed =
        seconds("PURSER_LAME_DUCK_SECONDS") +
        seconds("PURSER_DRAIN_SECONDS") +
        SHUTDOWN_SECONDS.streams +
        SHUTDOWN_SECONDS.exit;
      expect(terminationGracePeriodSeconds).toBeGreaterThan(needed);
    }
  });

  it("restarts no node that migrates: the probes of a start and of life ask /livez, which answers during the start", () => {
    const deployment = find(manifests({ publicUrl: "https://purser.example" }), "Deployment", "purser-api");
    const [{ startupProbe, livenessProbe, readinessProbe, ports }] = podOf(deployment).containers;
    const port = "http";
    expect(startupProbe.httpGet).toEqual({ path: "/livez", port });
    expect(livenessProbe.httpGet).toEqual({ path: "/livez", port });
    expect(readinessProbe.httpGet).toEqual({ path: "/readyz", port });
    expect(ports).toEqual([{ name: "http", containerPort: 3000 }]);
    expect(deployment.spec.progressDeadlineSeconds).toBeGreaterThanOrEqual(3_600);
  });

  it("selects with the Service only nodes that serve the API, and with budgets and autoscalers the nodes of their name", () => {
    const all = manifests(EVERYTHING);
    const labelsOf = (name: string) => find(all, "Deployment", name).spec.template.metadata.labels;
    const selects = (selector: Record<string, string>, name: string) =>
      Object.entries(selector).every(([key, value]) => labelsOf(name)[key] === value);
    const service = find(all, "Service", "purser").spec.selector;
    expect([selects(service, "purser-api"), selects(service, "purser-worker")]).toEqual([true, false]);
    const metrics = find(all, "Service", "purser-metrics");
    expect([selects(metrics.spec.selector, "purser-api"), selects(metrics.spec.selector, "purser-worker")]).toEqual([
      true,
      true,
    ]);
    const monitored = find(all, "ServiceMonitor", "purser").spec.selector.matchLabels;
    expect(metrics.metadata.labels).toMatchObject(monitored);
    expect(find(all, "Service", "purser").metadata.labels).not.toMatchObject(monitored);
    for (const [own, other] of [
      ["purser-api", "purser-worker"],
      ["purser-worker", "purser-api"],
    ] as const) {
      const { matchLabels } = find(all, "PodDisruptionBudget", own).spec.selector;
      expect([selects(matchLabels, own), selects(matchLabels, other)]).toEqual([true, false]);
      expect(find(all, "HorizontalPodAutoscaler", own).spec.scaleTargetRef.name).toBe(own);
      expect(find(all, "Deployment", own).spec.replicas).toBeUndefined();
    }
  });

  it("gives the nodes PURSER_CONFIG as a file, and new nodes to another one", () => {
    const all = manifests(EVERYTHING);
    expect(parse(find(all, "ConfigMap", "purser").data["purser.yaml"])).toEqual(EVERYTHING.config);
    const checksum = (config: Values) =>
      find(manifests({ ...EVERYTHING, config }), "Deployment", "purser-api").spec.template.metadata.annotations[
        "checksum/config"
      ];
    expect(checksum({ margin: 1 })).not.toBe(checksum({ margin: 2 }));
  });

  it("keeps names apart for two releases in one namespace, and within 63 characters", () => {
    const names = (release: string) => manifests(EVERYTHING, release).map(({ metadata }) => metadata.name as string);
    const [one, other] = [names("blue"), names("x".repeat(53))];
    expect(one.filter((name) => other.includes(name))).toEqual([]);
    for (const name of [...one, ...other]) expect(name.length, name).toBeLessThanOrEqual(63);
  });

  it("without publicUrl says what is missing", () => {
    expect(render({})).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("publicUrl: the address that people open"),
    });
  });

  it.each([
    ["a misspelt value", { ...EVERYTHING, publicURL: "https://x" }, "publicURL"],
    ["a misspelt value of the workers", { ...EVERYTHING, worker: { replica: 3 } }, "replica"],
    ["an address that is no URL", { publicUrl: "purser.example" }, "publicUrl"],
  ])("with %s is rejected, and Helm names it", (_, values, name) => {
    expect(render(values)).toMatchObject({ status: 1, stderr: expect.stringContaining(name) });
  });

  it("passes helm lint --strict", () => {
    expect(helm("lint", "--strict", chart, "-f", valuesFile(EVERYTHING))).toMatchObject({ status: 0 });
  });
});

describe("the chart's files", () => {
  it("have the version of package.json", () => {
    const { apiVersion, name, version, appVersion } = parse(text("Chart.yaml"));
    expect({ apiVersion, name, version, appVersion }).toEqual({
      apiVersion: "v2",
      name: "purser",
      version: RELEASE,
      appVersion: RELEASE,
    });
  });
});
