import { connect, type Socket } from "node:net";
import { percentile } from "./statistics.ts";

/** One request, sent repeatedly on kept connections over loopback. */
export interface Target {
  port: number;
  path: string;
  headers?: Record<string, string>;
  body: unknown;
}

export interface LoadMeasure {
  answers: number;
  failures: number;
  /** The message of the first failure. */
  failure: string | null;
  per_second: number;
  p50_ms: number;
  p99_ms: number;
  /** Until the first byte of the body. */
  first_byte_p50_ms: number;
  first_byte_p99_ms: number;
}

const HEAD_END = "\r\n\r\n";
/** The end of the last chunk of a chunked body. Each connection has one request at a time, so nothing follows it. */
const LAST_CHUNK = Buffer.from("\r\n0\r\n\r\n");
/** The extra time for running answers after the end. */
const GRACE_MS = 10_000;

interface Sample {
  start_ms: number;
  first_byte_ms: number;
  end_ms: number;
}

/** A connection that sends the target's request and calls `answered` after each answer. */
function createCaller(
  target: Target,
  answered: (caller: Caller, sample: Sample, failure: string | null) => void,
): Caller {
  const request = requestText(target);
  const sample: Sample = { start_ms: 0, first_byte_ms: 0, end_ms: 0 };
  let head = "";
  let left = 0;
  let chunked = false;
  let in_body = false;
  let tail: Buffer = Buffer.alloc(0);
  let text = "";
  let is_waiting = false;

  const finish = (failure: string | null) => {
    if (!is_waiting) return;
    is_waiting = false;
    sample.end_ms = performance.now();
    const done = { ...sample };
    head = "";
    text = "";
    in_body = false;
    answered(caller, done, failure);
  };
  const readBody = (chunk: Buffer) => {
    if (sample.first_byte_ms === 0) sample.first_byte_ms = performance.now();
    if (head.slice(9, 12) !== "200") text += chunk.toString();
    let ended: boolean;
    if (chunked) {
      const end = chunk.length < LAST_CHUNK.length ? Buffer.concat([tail, chunk]) : chunk;
      tail = end.subarray(-LAST_CHUNK.length);
      ended = tail.equals(LAST_CHUNK);
    } else {
      left -= chunk.length;
      ended = left <= 0;
    }
    if (ended) finish(head.slice(9, 12) === "200" ? null : `${head.slice(9, 12)} ${text.slice(0, 300)}`);
  };
  const readHead = (chunk: Buffer) => {
    head += chunk.toString("latin1");
    const end = head.indexOf(HEAD_END);
    if (end === -1) return;
    const bytes_after = head.length - end - HEAD_END.length;
    head = head.slice(0, end).toLowerCase();
    chunked = head.includes("\r\ntransfer-encoding: chunked");
    left = Number(/\r\ncontent-length: *(\d+)/.exec(head)?.[1] ?? 0);
    tail = Buffer.alloc(0);
    in_body = true;
    if (bytes_after > 0) readBody(chunk.subarray(chunk.length - bytes_after));
    else if (!chunked && left === 0) finish(head.slice(9, 12) === "200" ? null : head.slice(9, 12));
  };

  const socket: Socket = connect({ port: target.port, host: "127.0.0.1", noDelay: true });
  socket.on("data", (chunk: Buffer) => (in_body ? readBody(chunk) : readHead(chunk)));
  socket.on("error", (error) => finish(String(error)));
  socket.on("close", () => finish("the connection ended before the answer"));
  const caller: Caller = {
    send(start_ms) {
      sample.start_ms = start_ms;
      sample.first_byte_ms = 0;
      is_waiting = true;
      socket.write(request);
    },
    close: () => socket.destroy(),
  };
  return caller;
}

interface Caller {
  /** Sends the request. `start_ms` is the time at which it was due. */
  send(start_ms: number): void;
  close(): void;
}

function requestText({ port, path, headers = {}, body }: Target): Buffer {
  const json = body === null ? "" : JSON.stringify(body);
  const lines = [
    `${body === null ? "GET" : "POST"} ${path} HTTP/1.1`,
    `Host: 127.0.0.1:${port}`,
    ...(body === null ? [] : ["Content-Type: application/json", `Content-Length: ${Buffer.byteLength(json)}`]),
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return Buffer.from(`${lines.join("\r\n")}${HEAD_END}${json}`);
}

/** Fails with the contender's name when a request failed, because the figures would mean nothing. */
export async function checked<Measure extends LoadMeasure>(
  name: string,
  measuring: Promise<Measure>,
): Promise<Measure> {
  const measure = await measuring.catch((error: Error) => {
    throw new Error(`${name}: ${error.message}`);
  });
  if (measure.failures > 0) throw new Error(`${name}: ${measure.failures} failures, the first: ${measure.failure}`);
  return measure;
}

/** Runs `callers` for `seconds`. Each sends its next request after the last answer. */
export async function closedLoop(target: Target, load: { callers: number; seconds: number }): Promise<LoadMeasure> {
  const from_ms = performance.now();
  const to_ms = from_ms + load.seconds * 1000;
  const recorder = createRecorder();
  let busy = load.callers;
  await new Promise<void>((resolve, reject) => {
    const late = setTimeout(
      () => reject(new Error(`${busy} of ${load.callers} callers got no answer within ${GRACE_MS} ms after the end`)),
      to_ms - performance.now() + GRACE_MS,
    );
    const answered = (caller: Caller, sample: Sample, failure: string | null) => {
      recorder.record(sample, failure);
      if (failure === null && sample.end_ms < to_ms) return caller.send(performance.now());
      caller.close();
      busy -= 1;
      if (busy > 0) return;
      clearTimeout(late);
      resolve();
    };
    for (let index = 0; index < load.callers; index += 1) createCaller(target, answered).send(performance.now());
  });
  return recorder.measure(performance.now() - from_ms);
}

/** Sends `per_second` requests at even intervals, without waiting for answers. Latency counts from the due time. */
export async function openLoop(target: Target, load: { per_second: number; seconds: number }): Promise<LoadMeasure> {
  const from_ms = performance.now();
  const count = Math.floor(load.per_second * load.seconds);
  const recorder = createRecorder();
  const idle: Caller[] = [];
  let sent = 0;
  let busy = 0;
  await new Promise<void>((resolve, reject) => {
    const late = setTimeout(
      () => reject(new Error(`${busy} of ${sent} requests got no answer within ${GRACE_MS} ms after the end`)),
      load.seconds * 1000 + GRACE_MS,
    );
    const answered = (caller: Caller, sample: Sample, failure: string | null) => {
      recorder.record(sample, failure);
      busy -= 1;
      if (failure === null) idle.push(caller);
      else caller.close();
      if (sent < count || busy > 0) return;
      clearTimeout(late);
      clearInterval(ticks);
      resolve();
    };
    const ticks = setInterval(() => {
      for (; sent < count; sent += 1) {
        const due_ms = from_ms + (sent * 1000) / load.per_second;
        if (due_ms > performance.now()) return;
        busy += 1;
        (idle.pop() ?? createCaller(target, answered)).send(due_ms);
      }
    }, 1);
  });
  for (const caller of idle) caller.close();
  return recorder.measure(performance.now() - from_ms);
}

function createRecorder() {
  const totals: number[] = [];
  const first_bytes: number[] = [];
  let failures = 0;
  let first_failure: string | null = null;
  return {
    record({ start_ms, first_byte_ms, end_ms }: Sample, failure: string | null) {
      if (failure !== null) {
        failures += 1;
        first_failure ??= failure;
      } else {
        totals.push(end_ms - start_ms);
        first_bytes.push(first_byte_ms - start_ms);
      }
    },
    measure(duration_ms: number): LoadMeasure {
      totals.sort((a, b) => a - b);
      first_bytes.sort((a, b) => a - b);
      return {
        answers: totals.length,
        failures,
        failure: first_failure,
        per_second: (totals.length * 1000) / duration_ms,
        p50_ms: percentile(totals, 0.5),
        p99_ms: percentile(totals, 0.99),
        first_byte_p50_ms: percentile(first_bytes, 0.5),
        first_byte_p99_ms: percentile(first_bytes, 0.99),
      };
    },
  };
}
