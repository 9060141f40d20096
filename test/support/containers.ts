import { type SpawnSyncReturns, spawn, spawnSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Below the limits of any machine. Podman's own are higher than a limited machine may set. */
const LIMITS = ["nofile=20000:20000", "nproc=20000:20000"];
const DEBIAN = "localhost/purser-check-debian";
/** As the official images have it: nothing waits for the disk, and nothing stays in apt's cache. */
const DEBIAN_OPTIONS = [
  ...["--variant=minbase", "--include=ca-certificates,libatomic1,libstdc++6", "--dpkgopt=force-unsafe-io"],
  ...['--aptopt=Dir::Cache::pkgcache ""', '--aptopt=Dir::Cache::srcpkgcache ""'],
  '--aptopt=DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; }',
];
const INSTALL = "apt-get update && apt-get install -y --no-install-recommends";

/** What PostgreSQL's official image does with its variables at the first start. */
const POSTGRES_ENTRY = `#!/bin/sh
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
install -d -o postgres -g postgres -m 0700 /run/postgresql "$data"
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
if [ ! -s "$data/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password && chown postgres /tmp/password
  as "$bin/initdb" --pgdata="$data" --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-host=scram-sha-256
  echo "host all all all scram-sha-256" >> "$data/pg_hba.conf"
  as "$bin/pg_ctl" -D "$data" -w start -o "-c listen_addresses=''"
  as "$bin/createdb" -U "$POSTGRES_USER" "$POSTGRES_DB"
  as "$bin/pg_ctl" -D "$data" -w stop
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/postgres" -D "$data" -c "listen_addresses=*"
`;

/**
 * Podman, and images of Debian's packages in place of a registry's: Debian with Node as the official image has it, with
 * systemd as the first process, and with PostgreSQL. Each is made at its first use.
 */
export function createContainers({ folder, node }: { folder: string; node: string }) {
  const settings = join(folder, "containers.conf");
  const env = { ...process.env, CONTAINERS_CONF: settings, BUILDAH_FORMAT: "docker" };
  const made = new Set<string>();

  function run(program: string, args: readonly string[], more: { cwd?: string; env?: object } = {}): string {
    // Podman's other runtime, crun, needs a machine with one version of cgroups.
    if (!existsSync(settings)) {
      const limits = LIMITS.map((limit) => `"${limit}"`).join(", ");
      writeFileSync(settings, `[containers]\ndefault_ulimits = [${limits}]\n[engine]\nruntime = "runc"\n`);
    }
    const result: SpawnSyncReturns<string> = spawnSync(program, args, {
      cwd: more.cwd ?? folder,
      env: { ...env, ...more.env },
      encoding: "utf8",
      maxBuffer: 64 * 1024 * 1024,
    });
    if (result.status === 0) return result.stdout.trim();
    const why = result.error?.message ?? `${result.status}\n${result.stdout.slice(-2000)}${result.stderr.slice(-2000)}`;
    throw new Error(`${program} ${args.join(" ")}: ${why}`);
  }
  const podman = (...args: readonly string[]) => run("podman", args);

  /** Builds `name` of these lines, with the files that `fill` puts beside them. */
  function make(name: string, lines: readonly string[], fill: (context: string) => void = () => {}): string {
    if (made.has(name)) return name;
    if (!made.has(DEBIAN)) {
      const tar = join(folder, "debian.tar");
      run("mmdebstrap", [...DEBIAN_OPTIONS, "bookworm", tar]);
      podman("import", tar, DEBIAN);
      made.add(DEBIAN);
    }
    const context = join(folder, name.replaceAll("/", "-"));
    mkdirSync(context);
    fill(context);
    writeFileSync(join(context, "Containerfile"), [`FROM ${DEBIAN}`, ...lines].join("\n"));
    podman("build", "--network", "host", "-t", name, context);
    made.add(name);
    return name;
  }

  return {
    podman,
    run,
    node(): string {
      const certificates = process.env.NODE_EXTRA_CA_CERTS;
      const lines = [
        "COPY node /usr/local/bin/node",
        "COPY npm /usr/local/lib/node_modules/npm",
        "RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm",
        // How this machine reaches npm's registry.
        ...(certificates ? ["COPY extra.crt /etc/ssl/extra.crt", "ENV NODE_EXTRA_CA_CERTS=/etc/ssl/extra.crt"] : []),
      ];
      return make("localhost/purser-check-node", lines, (context) => {
        copyFileSync(node, join(context, "node"));
        cpSync(join(run("sh", ["-c", 'readlink -f "$(command -v npm)"']), "../.."), join(context, "npm"), {
          recursive: true,
        });
        if (certificates) copyFileSync(certificates, join(context, "extra.crt"));
      });
    },
    systemd: () => make("localhost/purser-check-systemd", [`RUN ${INSTALL} systemd-sysv dbus`, 'CMD ["/sbin/init"]']),
    postgres: () =>
      make(
        "localhost/purser-check-postgres",
        [
          `RUN ${INSTALL} postgresql`,
          "COPY --chmod=755 entry /usr/local/bin/entry",
          'ENTRYPOINT ["/usr/local/bin/entry"]',
        ],
        (context) => writeFileSync(join(context, "entry"), POSTGRES_ENTRY, { mode: 0o755 }),
      ),
    /** Podman's API, as Docker's: what docker-compose needs. */
    serve(): { env: { DOCKER_HOST: string }; stop(): void } {
      const socket = `unix://${join(folder, "podman.sock")}`;
      podman("info");
      const child = spawn("podman", ["system", "service", "--time=0", socket], { env, stdio: "ignore" });
      return { env: { DOCKER_HOST: socket }, stop: () => child.kill() };
    },
    env,
    close: (images: Iterable<string>) => {
      for (const image of [...images, ...made].reverse()) spawnSync("podman", ["rmi", "--force", image], { env });
    },
  };
}
