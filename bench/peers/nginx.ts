import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { freePort } from "../support/free-port.ts";
import { type ServerProcess, startServer } from "../support/processes.ts";

const READY_MS = 10_000;

/** It only forwards: one process, kept connections on both sides, streams passed on unchanged. */
const configuration = (port: number, upstream_url: string) => `
  daemon off; master_process off; pid nginx.pid; error_log stderr crit;
  events { worker_connections 2048; }
  http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    keepalive_requests 1000000000;
    upstream models { server ${new URL(upstream_url).host}; keepalive 512; keepalive_requests 1000000000; }
    server {
      listen 127.0.0.1:${port} backlog=4096;
      location / { proxy_pass http://models; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
    }
  }
`;

/** Starts nginx before the upstream; null when it is not on the PATH (Debian: `apt-get install nginx`). */
export async function startNginx(upstream_url: string): Promise<ServerProcess | null> {
  try {
    execFileSync("nginx", ["-v"], { stdio: "ignore" });
  } catch {
    return null;
  }
  const folder = mkdtempSync(join(tmpdir(), "nginx-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const port = await freePort();
  writeFileSync(join(folder, "nginx.conf"), configuration(port, upstream_url));
  const started = `echo http://127.0.0.1:${port}; exec nginx -p "$PWD" -c nginx.conf`;
  const server = await startServer(["sh", "-c", started], { core: "service", cwd: folder });
  const stop = () => server.kill().finally(remove);
  try {
    await untilListening(port);
  } catch (error) {
    await stop();
    throw error;
  }
  return { ...server, stop, kill: stop };
}

/** It prints nothing when it listens. */
async function untilListening(port: number): Promise<void> {
  const deadline_ms = performance.now() + READY_MS;
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    const listening = await new Promise<boolean>((resolve) => {
      socket.once("connect", () => resolve(true));
      socket.once("error", () => resolve(false));
    });
    socket.destroy();
    if (listening) return;
    if (performance.now() > deadline_ms) throw new Error("nginx does not listen");
    await setTimeout(20);
  }
}
